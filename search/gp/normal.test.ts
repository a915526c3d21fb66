import { describe, expect, test } from 'vitest'
import { bilog } from '../bench/plain-reference.ts'
import reference from './fixtures/gp-bo.json' with { type: 'json' }
import { cdf, logCdf, logExpectedImprovement, logH, logNormalLogPdf, logPdf } from './normal.ts'

const relative = (a: number, b: number) => Math.abs(a - b) / Math.max(1e-6, Math.abs(b))

describe('against 60-digit references', () => {
  test.each(reference.log_h)('ln h($u)', ({ u, value }) =>
    expect(relative(logH(u), value)).toBeLessThan(1e-9),
  )
  test.each(reference.log_ndtr)('ln Φ($z)', ({ z, value }) =>
    expect(relative(logCdf(z), value)).toBeLessThan(1e-12),
  )
  test.each(reference.bilog)('bilog($v)', ({ v, value }) => expect(bilog(v)).toBeCloseTo(value, 12))
  test.each(reference.dsp_lognormal_lengthscale_logpdf)(
    'LogNormal prior at $l in $d dimensions',
    ({ l, mu, sigma, logpdf }) =>
      expect(relative(logNormalLogPdf(l, mu, sigma), logpdf)).toBeLessThan(1e-12),
  )
  test('constrained log EI', () => {
    const { mean, std, best, c_mean, c_std, c_upper, log_ei, log_pof } = reference.logcei_example
    expect(relative(logExpectedImprovement(mean, std, best), log_ei)).toBeLessThan(1e-9)
    expect(relative(logCdf((c_upper - c_mean) / c_std), log_pof)).toBeLessThan(1e-9)
  })
})

test('ln h where its branches meet, and its difference from ln φ(u)/u² in the far tail', () => {
  // mpmath at 80 digits.
  expect(logH(-1)).toBeCloseTo(-2.48512102571264, 12)
  expect(logH(-0.999)).toBeCloseTo(-2.48321711544758, 12)
  expect(logH(-1.001)).toBeCloseTo(-2.48702565795538, 12)
  // ln(1 - 3/u² + ...): -3.0e-6 at 1,001, -1.3e-6 at 1,500.
  const short = (u: number) => logH(u) - logPdf(u) + 2 * Math.log(-u)
  for (const u of [-1001, -1500, -4000]) expect(short(u) * u * u).toBeCloseTo(-3, 2)
})

test('density and distribution of a standard normal', () => {
  expect(logPdf(0)).toBeCloseTo(Math.log(1 / Math.sqrt(2 * Math.PI)), 14)
  expect(logPdf(2) - logPdf(0)).toBeCloseTo(-2, 14)
  expect(cdf(0)).toBeCloseTo(0.5, 15)
  expect(cdf(1.959963984540054)).toBeCloseTo(0.975, 14)
  expect(cdf(-1.959963984540054)).toBeCloseTo(0.025, 14)
})

test('ln h is continuous and rising across its three branches', () => {
  for (const seam of [-1, -1000]) expect(logH(seam + 1e-9) - logH(seam - 1e-9)).toBeLessThan(1e-5)
  let previous = -Infinity
  for (let u = -1e6; u < 10; u += u < -100 ? 997 : 0.01) {
    const value = logH(u)
    expect(value).toBeGreaterThan(previous)
    previous = value
  }
})

test('without uncertainty the expected improvement is the improvement', () => {
  expect(logExpectedImprovement(1, 0, 3)).toBeCloseTo(Math.log(2))
  expect(logExpectedImprovement(3, 0, 1)).toBe(-Infinity)
})
