/**
 * Names that an experiment chooses from, where no other folder has them. Light: the command line's
 * help shows them and must start fast.
 */
import { defaultCounts } from '../../profiler/payload-source.ts'
import { samplerNames } from '../../search/samplers/sampler-names.ts'

export const backends = ['local', 'simulated', 'kubernetes'] as const
export type Backend = (typeof backends)[number]

export const deviceChoices = ['auto', 'cpu', 'gpu', 'emulated'] as const
export type Devices = (typeof deviceChoices)[number]

/** Where the load of trials on a cluster comes from. */
export const loadOrigins = ['cluster', 'port-forward', 'here'] as const
export type LoadOrigin = (typeof loadOrigins)[number]

/** Programs that can receive a run while it goes on. */
export const outputKinds = ['otlp', 'mlflow'] as const
export type OutputKind = (typeof outputKinds)[number]

/**
 * Defaults, which the help also prints. Defaults that depend on other settings are in resolve.ts.
 */
export const defaults = {
  percentile: 'p99',
  errorRate: '0.1%',
  headroom: '20%',
  backend: 'local',
  devices: 'auto',
  sampler: samplerNames[0],
  maxTrials: 12,
  parallel: 1,
  seed: 1,
  /** Reference answers: those of the first configuration. */
  golden: 'first',
  arrivals: 'poisson',
  payloadCount: defaultCounts.bodies,
  promptCount: defaultCounts.prompts,
  trialTime: '3s',
  confirmTime: '30s',
  readyTimeout: '60s',
  /**
   * Five minutes to start, as in manifests, and ten for weights: 30 GB at the 50 MiB/s of a
   * download.
   */
  languageReadyTimeout: '15m',
  tolerance: '5%',
  certainty: '95%',
  db: '.tune/tune.db',
} as const
