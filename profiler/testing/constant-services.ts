/**
 * Requests per second at which 1 % of Poisson arrivals stay longer than the limit, at one worker of
 * constant services: M/D/1 by its asymptote (Cramér and Lundberg), P(W > t) = C exp(-theta t),
 * lambda (exp(theta D) - 1) = theta, C = (1 - rho) / (rho exp(theta D) - 1).
 * @param ms of a service, D
 */
export function constantServicesRps(ms: number, limitMs: number): number {
  const bisect = (low: number, high: number, beyond: (x: number) => boolean) => {
    for (let i = 0; i < 100; i++)
      [low, high] = beyond((low + high) / 2) ? [low, (low + high) / 2] : [(low + high) / 2, high]
    return low
  }
  const over = (perMs: number) => {
    const theta = bisect(1e-9, 10 / ms, (x) => perMs * Math.expm1(x * ms) > x)
    return (
      ((1 - perMs * ms) / (perMs * ms * Math.exp(theta * ms) - 1)) *
      Math.exp(-theta * (limitMs - ms))
    )
  }
  return 1000 * bisect(0.5 / ms, 0.99999 / ms, (perMs) => over(perMs) > 0.01)
}
