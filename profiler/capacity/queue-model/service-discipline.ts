/** Service discipline of a server, as identified from its runs. */
import type { ServiceLog } from '../service-log/service-log.ts'
import type { Batching } from './batching.ts'

/** An identified discipline, with the service times that it implies for the observed runs. */
export interface IdentifiedDiscipline {
  readonly workers: number
  /** Network and framework time of a request, before and after the workers, ms. */
  readonly overheadMs: number
  /** Processor sharing: the logs hold the work of each request. */
  readonly sharesCores?: boolean
  /** Dynamic batching: the logs hold batch durations. */
  readonly batching?: Batching
  /** Service times of each open window, in order of their start. */
  readonly windows: readonly ServiceLog[]
  /** Service times of the closed loops that were served at the same speed. */
  readonly loops: readonly ServiceLog[]
  /** Service times of all closed loops. */
  readonly history?: readonly ServiceLog[]
}
