/** The profiler's one entry: load generation, protocols, capacity under an SLO. */
export { type CapacityOptions, type Effort, efforts, measureCapacity, percentileName } from './capacity/measure.ts'
export type { Phase } from './capacity/session.ts'
export { GeneratorError, PayloadError, ProtocolError } from './errors.ts'
export { HttpLoadGenerator } from './generator/http-generator.ts'
export { type ProtocolOptions, protocolFor } from './protocols/index.ts'
export { loadPointOf, summarise } from './statistics/load-point.ts'
export * from './types.ts'
