//! The exponential function as Go computes it where upstream runs.
//!
//! Priorities are compared with each other and with upstream's to the last bit, so the steps are those of Go's `math.Exp` on amd64 with fused
//! multiplication (after N. Shibata, "Efficient evaluation methods of elementary functions suitable for SIMD computation", 2010): reduce by
//! ln 2 and by 16, add up e^r - 1, square four times, scale.

const LN_2_UPPER: f64 = 0.693_147_180_559_662_956_511_601_805_686_950_683_593_75;
const LN_2_LOWER: f64 = 0.282_352_905_630_315_771_225_884_481_750_134_360_255_254_120_68e-12;
/// The largest power that does not overflow.
const OVERFLOW: f64 = 709.782_712_893_384;
/// 1 / n! for n from 7 down to 1.
const TERMS: [f64; 7] = [1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0];
/// 1 / 8!
const HIGHEST_TERM: f64 = 1.0 / 40320.0;
const SQUARINGS: u32 = 4;

/// Returns e to the power of a number.
pub(super) fn exp(power: f64) -> f64 {
    if power.is_nan() || power == f64::INFINITY {
        return power;
    }
    if power > OVERFLOW {
        return f64::INFINITY;
    }
    let exponent = (power * std::f64::consts::LOG2_E).round_ties_even();
    if exponent < -1075.0 {
        return 0.0;
    }
    let reduced = (-LN_2_LOWER).mul_add(exponent, (-LN_2_UPPER).mul_add(exponent, power)) / 16.0;
    let mut less_one = TERMS.iter().fold(HIGHEST_TERM, |sum, term| sum.mul_add(reduced, *term)) * reduced;
    for _ in 1..SQUARINGS {
        less_one *= less_one + 2.0;
    }
    // The last squaring and the addition of one are a single step.
    scaled(less_one.mul_add(less_one + 2.0, 1.0), exponent as i32)
}

/// A number times a power of two, in two steps where one would not do.
fn scaled(number: f64, exponent: i32) -> f64 {
    if exponent < -1022 { number * 2_f64.powi(exponent + 1022) * 2_f64.powi(-1022) } else { number * 2_f64.powi(exponent) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MACH-SET-03: the last bits are those that Go 1.26 computed, which differ from others by one or two.
    #[test]
    fn as_go_computes() {
        let table = include_str!("../../tests/data/exp.txt");
        assert!(table.lines().count() > 200);
        for line in table.lines() {
            let Some((power, wanted)) = line.split_once(' ') else { panic!("{line}") };
            let bits = |text: &str| u64::from_str_radix(text, 16).map(f64::from_bits);
            let (Ok(power), Ok(wanted)) = (bits(power), bits(wanted)) else { panic!("{line}") };
            assert_eq!(exp(power).to_bits(), wanted.to_bits(), "e^{power}: {} and not {wanted}", exp(power));
        }
    }
}
