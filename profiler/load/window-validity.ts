/**
 * Decides whether a window measured the server, rather than the load generator or other work on the
 * machine.
 */
import type { CpuWait, LoadRun } from '../model/load-run.ts'
import type { Slo } from '../model/slo.ts'

/** One thread sends; above this use of its core, the generator limits the rate of a closed loop. */
const maxClosedCores = 0.9

/**
 * Computes the limit on the p99 lateness of sends, beyond which latencies measure the generator,
 * not the server: 3 ms, or 5 % of the SLO limit if that is more. Assumed.
 */
const computeMaxLatenessMs = (slo: Slo): number => Math.max(3, 0.05 * slo.limitMs)

/** Limit on the share of a window that may be spent waiting for a core. Assumed. */
const maxWaitShare = 0.05

/**
 * Waits of the generator are negligible while their mean is below this share of the SLO limit,
 * however frequent they are. Assumed.
 */
const negligibleWaitShare = 0.01

/**
 * Whether host interference makes the window invalid: the server or the generator waited for a core
 * for more than 5 % of it, or the hypervisor withheld more than 5 % of its CPU time. A wait of the
 * server is lost capacity. A wait of the generator only adds latency, so it counts only where it is
 * long compared with the SLO: other processes always run on a cluster node.
 */
export function hasHostInterference(
  { server = 0, generator = 0, generatorMs = Number.POSITIVE_INFINITY, stolen = 0 }: CpuWait,
  slo: Slo,
): boolean {
  const generatorShare = generatorMs > negligibleWaitShare * slo.limitMs ? generator : 0
  return Math.max(server, generatorShare, stolen) > maxWaitShare
}

/**
 * Whether 1 % of the planned sends or more are missing, so that the rate was not the intended one.
 */
export const hasMissingSends = (run: LoadRun): boolean => run.latencyMs.length < 0.99 * run.planned

/**
 * Whether the generator could not sustain the load: a closed loop used nearly a whole core, or an
 * open loop sent too few requests, or too late.
 */
export function isGeneratorSaturated(run: LoadRun, slo: Slo): boolean {
  if (run.load.kind === 'closed') return run.generatorCores > maxClosedCores
  return hasMissingSends(run) || run.latenessP99Ms > computeMaxLatenessMs(slo)
}
