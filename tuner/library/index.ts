/**
 * The package's one entry for programs: `import { tune, profile, search } from 'tune'`. Documented
 * in docs/reference/library.md.
 */

export {
  GeneratorError,
  type Measurement,
  PayloadError,
  type Profile,
  ProtocolError,
} from '../../profiler/index.ts'
export type { Slo } from '../../profiler/model/slo.ts'
export type { Recommendation } from '../../reports/recommendation/types.ts'
export type { Configuration } from '../../search/types.ts'
export { StoreError } from '../../trials/store/store-error.ts'
export type { FinishedTrial } from '../../trials/types.ts'
export { ConfigError, type ConfigProblem } from '../config/config-error.ts'
export type { ExperimentInput } from '../config/schema/experiment-schema.ts'
export { UserError } from '../exit-codes.ts'
export type { TuneEvent } from '../loop/events.ts'
export { type ProfileOptions, profile } from './profile-server.ts'
export {
  type EvaluationResult,
  type SearchOptions,
  type SearchResult,
  type SearchTrial,
  search,
} from './search-function.ts'
export { type TuneOptions, type TuneResult, tune } from './tune-experiment.ts'
