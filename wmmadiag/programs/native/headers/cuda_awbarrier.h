// Device code alone uses what this header declares.
#pragma once
