// What it declared is always there, or device code's alone; CUDA 13 has it no more.
#pragma once
