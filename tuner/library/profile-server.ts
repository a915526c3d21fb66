/** Programmatic API of `tune profile`: load-tests a running server. */
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
import { addAuthorization } from '../backends/predictor-protocol.ts'
import { ConfigError, type ConfigProblem } from '../config/config-error.ts'
import { defaults } from '../config/names.ts'
import { parseSloText } from '../config/values/parse-slo.ts'
import { parseShare, UnitError } from '../config/values/units.ts'

export interface ProfileOptions extends Partial<Omit<ProfilerOptions, 'url' | 'slo'>> {
  /** Where it listens, 'http://127.0.0.1:8000'. */
  readonly url: string
  /** '50ms' (p99), 'p95<80ms'; of streamed answers also several: 'p90 ttft<200ms tpot<30ms'. */
  readonly slo: string
  /** Maximum share of failed requests, default 0.001. */
  readonly errorRate?: number
  /** The model it serves, default 'model'. */
  readonly model?: string
  /** Source of request bodies; default: generated from the server's model metadata. */
  readonly payload?: ProfilerOptions['payload']
  /** Ends the load at once. */
  readonly signal?: AbortSignal
}

/**
 * Load-tests a server, as `tune profile` does: its capacity under an SLO, or with `rateRps` its
 * latencies at that rate. A violated SLO is a result (`verdict: 'violated'`), and so is a server that
 * fails under load (`failed`). Prints nothing and leaves no process and no socket behind.
 * @throws ConfigError for an invalid URL or SLO; ProtocolError for a server that does not speak the
 * protocol; PayloadError for bad bodies; GeneratorError for unusable loads; the signal's
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
  return profileAndRedact({
    model: 'model',
    payload: { kind: 'generated', seed: rest.seed ?? defaults.seed },
    ...rest,
    url,
    slo: parseProfileSlo(url, slo, errorRate),
    headers: addAuthorization(url, headers),
    signal: signal ?? new AbortController().signal,
  })
}

/**
 * Profiles an endpoint and redacts known secrets from the texts.
 * @throws what `profileEndpoint` throws
 */
export async function profileAndRedact(options: ProfilerOptions): Promise<Profile> {
  const result = await profileEndpoint(options)
  const { url, summary, caveats } = result
  return {
    ...result,
    url: redactSecrets(url),
    summary: redactSecrets(summary),
    caveats: caveats.map(redactSecrets),
  }
}

/** @throws ConfigError for an invalid URL or SLO */
function parseProfileSlo(url: string, slo: string, errorRate: number): Slo {
  const problems: ConfigProblem[] = []
  if (!URL.canParse(url))
    problems.push({
      where: 'url',
      what: `'${redactSecrets(url)}' is not a URL`,
      hint: 'write http://HOST:PORT',
    })
  try {
    const parsed = parseSloText(slo, errorRate)
    if (problems.length === 0) return parsed
  } catch (error) {
    if (!(error instanceof UnitError)) throw error
    problems.push({ where: 'slo', what: error.message, hint: error.hint })
  }
  throw new ConfigError(problems)
}
