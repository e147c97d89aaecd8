// SPDX-License-Identifier: MIT
// The library's own logarithm and exponential, against the C library's.
#include <cmath>

#include <gtest/gtest.h>

extern "C" {
#include "features/typed/real.h"
}

TEST(RealLog, IsTheLogarithmOfWhatIsDrawn)
{
	for (double x = 0x1p-53; x <= 1; x *= 1.37)
		EXPECT_NEAR(real_log(x), std::log(x), 1e-12 * (1 - std::log(x))) << x;
	EXPECT_EQ(real_log(1), 0);
	EXPECT_NEAR(real_log(0.5), -std::log(2.0), 1e-15);
}

TEST(RealOneMinusExp, IsExactFarBelowOne)
{
	for (double x = 1e-11; x < 100; x *= 1.21)
		EXPECT_NEAR(real_one_minus_exp(x) / -std::expm1(-x), 1, 1e-12) << x;
	EXPECT_EQ(real_one_minus_exp(0), 0);
	EXPECT_EQ(real_one_minus_exp(1e9), 1);
}
