/** Detects a server that hangs, as opposed to one that works off a queue. */
import type { LoadPoint } from '../model/load-point.ts'
import type { LoadRun } from '../model/load-run.ts'
import { findMaxLimitMs, type Slo } from '../model/slo.ts'
import type { Target } from '../model/target.ts'

/**
 * A server hangs where all requests of this many consecutive loads time out, over at least
 * `minUnresponsiveS` seconds. Assumed.
 */
const minUnresponsiveLoads = 2
const minUnresponsiveS = 10
/** Time without any data after which a stream is given up, in SLO limits. Assumed. */
const unresponsiveLimits = 4

export class HangDetector {
  /** Last load point of a server that hangs; undefined while it answers. */
  unresponsive: LoadPoint | undefined
  private loads = 0
  private seconds = 0

  /**
   * Records a load. Two types of loads count: one request at a time, which waits in no queue, and
   * streams, which are given up only when silent.
   */
  record({ load, elapsedS }: LoadRun, point: LoadPoint, target: Target): void {
    const hasNoAnswer = point.errors > 0 && point.errorKinds.timeout === point.requests
    if (!hasNoAnswer) {
      this.loads = 0
      this.seconds = 0
    } else if (
      (load.kind === 'closed' && load.connections === 1) ||
      (target.kind === 'http' && target.silentMs !== undefined)
    ) {
      this.loads++
      this.seconds += elapsedS
    }
    if (this.loads >= minUnresponsiveLoads && this.seconds >= minUnresponsiveS)
      this.unresponsive = point
  }
}

/**
 * Sets the time after which streams without any data are given up. It is shorter than their
 * timeout, which allows for long answers.
 */
export function limitSilence(target: Target, slo: Slo): Target {
  if (target.kind !== 'http' || target.transport !== 'sse') return target
  const silentMs = Math.max(1000 * minUnresponsiveS, unresponsiveLimits * findMaxLimitMs(slo))
  return { ...target, silentMs }
}
