/** Reliability of the figures of a configuration. */
import type { Measurement } from '../../profiler/model/measurement.ts'

/** Each status with its meaning. */
export const statuses = {
  confirmed: 'a second, independent load test met the SLO and proves it',
  met: 'a second load test met the SLO, with too few requests to prove it',
  measured: 'measured once',
  imported: 'another tool measured it, not tune',
  bound: 'only a bound of its capacity is known',
  refuted: 'its second load test violated the SLO',
  inconclusive: 'inconclusive: other work on the machine disturbed its measurement',
  infeasible: 'cannot serve, or violates the SLO at any rate',
  failed: 'could not be measured',
} as const
export type Status = keyof typeof statuses
export const statusNames = Object.keys(statuses) as [Status, ...Status[]]

/** Whether a second measurement met the SLO at the stated rate. */
export const isConfirmed = (status: Status): boolean => status === 'confirmed' || status === 'met'

/** Whether requests fail even one at a time, or kill the server. */
export const failsAllRequests = ({
  outcome,
  capacityRps,
}: Pick<Measurement, 'outcome' | 'capacityRps'>): boolean =>
  !(capacityRps > 0) && (outcome === 'errors' || outcome === 'server-died')

/**
 * A configuration that was measured once replaces a confirmed one only if it is cheaper by more than
 * this share. The lowest of several noisy costs is too low on average, and a window at the true
 * capacity meets the SLO half the time.
 */
export const confirmationMargin = 0.1
