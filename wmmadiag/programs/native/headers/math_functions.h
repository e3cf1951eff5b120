// What it declares is always there.
#pragma once
