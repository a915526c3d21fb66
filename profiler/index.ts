/** The profiler's one entry: load generation, protocols, capacity under an SLO. */

export { type EarlierMeasurement, earlierMeasurementOf } from './capacity/confirm/agreement.ts'
export {
  type Confirmation,
  type ConfirmationWindows,
  type ConfirmOptions,
  confirmCapacity,
  usualConfirmationS,
} from './capacity/confirm/confirm.ts'
export { spreadConfirmationS } from './capacity/confirm/rate-evidence.ts'
export { type Effort, efforts } from './capacity/effort.ts'
export { capacityOf } from './capacity/known-capacity.ts'
export { type CapacityOptions, measureCapacity } from './capacity/measure.ts'
export { keptUnder, provenUnder } from './capacity/other-slo/kept-under.ts'
export { measureSimulatedCapacity } from './capacity/simulated-capacity.ts'
export { requestsToWarm, requestsUntilSteady } from './capacity/warm-up.ts'
export { schedule } from './generator/arrivals.ts'
export { HttpLoadGenerator } from './generator/http-generator.ts'
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
export type { ProtocolOptions } from './protocols/protocol-module.ts'
export { type ProtocolName, protocolNames, protocolTable } from './protocols/protocol-table.ts'
export { keeps, sloName, sloText } from './slo.ts'
export type { HistogramBin } from './statistics/histogram.ts'
export { loadPointOf, summarise } from './statistics/load-point.ts'
export * from './types.ts'
export { VirtualLoadGenerator } from './virtual/virtual-generator.ts'
