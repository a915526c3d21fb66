/** The profiler's one entry: load generation, protocols, capacity under an SLO. */

export {
  type EarlierMeasurement,
  extractEarlierMeasurement,
} from './capacity/confirmation/agreement.ts'
export { confirmCapacity, estimateConfirmationS } from './capacity/confirmation/confirm.ts'
export type {
  Confirmation,
  ConfirmationWindows,
  ConfirmOptions,
} from './capacity/confirmation/confirm-options.ts'
export { computeMinSpanS } from './capacity/confirmation/proof-time.ts'
export { type Effort, efforts } from './capacity/effort.ts'
export { type CapacityOptions, measureCapacity } from './capacity/measure.ts'
export { isProvenUnder, judgeWindow } from './capacity/rederive/window-under-slo.ts'
export type { CapacitySearchOptions } from './capacity/search-options.ts'
export { measureSimulatedCapacity } from './capacity/simulated/simulated-capacity.ts'
export { estimateRequestsToWarm, estimateRequestsUntilSteady } from './capacity/warm-up.ts'
export { schedule } from './load/arrivals.ts'
export { HttpLoadGenerator } from './load/http-generator.ts'
export { summarise, summariseRun } from './load/load-point.ts'
export { VirtualLoadGenerator } from './load/virtual-generator.ts'
export type * from './model/declared-discipline.ts'
export type * from './model/load.ts'
export type * from './model/load-generator.ts'
export type * from './model/load-point.ts'
export type * from './model/load-run.ts'
export type * from './model/measurement.ts'
export { meetsSlo, type Slo, type SloLimit, sloName, sloText } from './model/slo.ts'
export type * from './model/target.ts'
export type * from './model/virtual-server.ts'
export type { PayloadOrder, PayloadSource } from './payload-source.ts'
export {
  type PercentileRow,
  type Profile,
  type ProfileOptions,
  profileEndpoint,
  type SteadyWindow,
} from './profile.ts'
export { GeneratorError, PayloadError, ProtocolError } from './profiler-errors.ts'
export { protocolFor } from './protocols/index.ts'
export type * from './protocols/protocol.ts'
export type { ProtocolOptions } from './protocols/protocol-module.ts'
export { type ProtocolName, protocolNames, protocolTable } from './protocols/protocol-table.ts'
export type { HistogramBin } from './statistics/histogram.ts'
