/** Service discipline of a server, with the service times that it implies for the observed runs. */
import type { DeclaredDiscipline } from '../../model/declared-discipline.ts'
import type { ServiceLog } from '../service-log/service-log.ts'

export interface ServiceDiscipline extends DeclaredDiscipline {
  /** Network and framework time of a request, before and after the workers, ms. */
  readonly overheadMs: number
}

/** Computes when a batch begins to wait for more requests: at its oldest, or at a free worker. */
export const startDelay = (
  { delayFrom = 'arrival' }: Pick<ServiceDiscipline, 'delayFrom'>,
  oldestMs: number,
  freeMs: number,
): number => (delayFrom === 'arrival' ? oldestMs : Math.max(oldestMs, freeMs))

/** A discipline that fits the windows. */
export interface CalibratedDiscipline extends ServiceDiscipline {
  /** Services of each window: one step for each request or batch, in order of their start. */
  readonly windows: readonly ServiceLog[]
  /** Services of the closed loops whose services took as long as those of the windows. */
  readonly loops: readonly ServiceLog[]
}
