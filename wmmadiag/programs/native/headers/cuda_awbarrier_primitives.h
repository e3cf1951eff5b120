// Device code alone uses what this header declares.
#pragma once

typedef unsigned long __mbarrier_t;
typedef unsigned long __mbarrier_token_t;
