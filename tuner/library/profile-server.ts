/** `profile` for programs: a server that is already there, load-tested. */
import {
  type Profile,
  type ProfileOptions as ProfilerOptions,
  profileEndpoint,
  type Slo,
} from '../../profiler/index.ts'
import {
  isSecretHeader,
  redactSecrets,
  registerSecret,
  registerSecretsIn,
} from '../../trials/secrets.ts'
import { withAuthorization } from '../backends/predictor-protocol.ts'
import { ConfigError, type ConfigProblem } from '../config/config-error.ts'
import { defaults } from '../config/names.ts'
import { writtenSlo } from '../config/parse-slo.ts'
import { parseShare, UnitError } from '../config/units.ts'

export interface ProfileOptions extends Partial<Omit<ProfilerOptions, 'url' | 'slo'>> {
  /** Where it listens, 'http://127.0.0.1:8000'. */
  readonly url: string
  /** '50ms' (p99), 'p95<80ms'; of streamed answers also several: 'p90 ttft<200ms tpot<30ms'. */
  readonly slo: string
  /** Highest tolerated share of failed requests, default 0.001. */
  readonly errorRate?: number
  /** The model it serves, default 'model'. */
  readonly model?: string
  /** What requests are made of; default: made from what the server says of its model. */
  readonly payload?: ProfilerOptions['payload']
  /** Ends the load at once. */
  readonly signal?: AbortSignal
}

/**
 * Load-tests a server, as `tune profile` does: its capacity under an SLO, or with `rateRps` how it
 * fares at that rate. A violated SLO is a result (`verdict: 'violated'`), and so is a server that fails
 * under load (`failed`). Prints nothing and leaves no process and no socket behind.
 * @throws ConfigError for a URL or an SLO that cannot be read; ProtocolError for a server that
 * cannot be talked to; PayloadError for bad bodies; GeneratorError for unusable loads; the signal's
 * reason once it is aborted
 */
export async function profile(options: ProfileOptions): Promise<Profile> {
  const {
    url,
    slo,
    errorRate = parseShare(defaults.errorRate),
    headers = {},
    signal,
    ...rest
  } = options
  registerSecretsIn(url)
  for (const [name, value] of Object.entries(headers))
    if (isSecretHeader(name)) registerSecret(value)
  return profileWithoutSecrets({
    model: 'model',
    payload: { kind: 'generated', seed: rest.seed ?? defaults.seed },
    ...rest,
    url,
    slo: sloOfOptions(url, slo, errorRate),
    headers: withAuthorization(url, headers),
    signal: signal ?? new AbortController().signal,
  })
}

/**
 * What the profiler found, secrets that were remembered left out of its texts. @throws what
 * `profileEndpoint` does
 */
export async function profileWithoutSecrets(options: ProfilerOptions): Promise<Profile> {
  const profiled = await profileEndpoint(options)
  const { url, summary, caveats } = profiled
  return {
    ...profiled,
    url: redactSecrets(url),
    summary: redactSecrets(summary),
    caveats: caveats.map(redactSecrets),
  }
}

/** @throws ConfigError for what cannot be read of either */
function sloOfOptions(url: string, slo: string, errorRate: number): Slo {
  const problems: ConfigProblem[] = []
  if (!URL.canParse(url))
    problems.push({
      where: 'url',
      what: `'${redactSecrets(url)}' is not a URL`,
      hint: 'write http://HOST:PORT',
    })
  try {
    const written = writtenSlo(slo, errorRate)
    if (problems.length === 0) return written
  } catch (error) {
    if (!(error instanceof UnitError)) throw error
    problems.push({ where: 'slo', what: error.message, hint: error.hint })
  }
  throw new ConfigError(problems)
}
