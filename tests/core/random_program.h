// How many random programs a test tries.
#pragma once

inline int random_programs = 100;
