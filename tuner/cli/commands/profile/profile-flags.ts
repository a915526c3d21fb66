/**
 * Parses the flags of `tune profile` into options of the profiler; reports all problems at once.
 */
import {
  type Arrivals,
  efforts,
  PayloadError,
  type PayloadOrder,
  type PayloadSource,
  type ProfileOptions,
  protocolNames,
  protocolTable,
} from '../../../../profiler/index.ts'
import type { TlsOptions } from '../../../../profiler/model/tls-options.ts'
import type { PromptSpec } from '../../../../profiler/prompt-spec.ts'
import { isConversations } from '../../../../profiler/protocols/conversations.ts'
import {
  type FormFields,
  findFieldFileFault,
  listFields,
} from '../../../../profiler/protocols/form-fields.ts'
import { findRequestFault } from '../../../../profiler/protocols/request-format.ts'
import { isSecretHeader, registerSecret, registerSecretsIn } from '../../../../trials/secrets.ts'
import { addAuthorization } from '../../../backends/predictor-protocol.ts'
import { describeBadHeader, parseHeader } from '../../../config/flags/flag-entries.ts'
import { fillReferences } from '../../../config/secret-values.ts'
import {
  clientPairHint,
  explainMissingTls,
  readAuthority,
  readClientPair,
} from '../../../config/tls-files.ts'
import { readTrace } from '../../../config/trace.ts'
import { parseSloText } from '../../../config/values/parse-slo.ts'
import {
  detectPayloadKind,
  parseItems,
  resolveContentType,
} from '../../../config/values/payload.ts'
import { parseLengths, resolvePrompts } from '../../../config/values/prompts.ts'
import { parseTraceName } from '../../../config/values/time-unit.ts'
import {
  parseCount,
  parseDurationMs,
  parseRateRps,
  parseShare,
} from '../../../config/values/units.ts'
import { exitCodes } from '../../../exit-codes.ts'

export interface ProfileFlags {
  readonly url: string
  readonly slo: string
  readonly model: string
  readonly protocol?: string
  readonly errorRate: string
  readonly rate?: string
  readonly concurrency?: string
  readonly arrivals: string
  readonly duration: string
  readonly effort: string
  readonly payload?: string
  readonly items?: string
  readonly inputTokens?: string
  readonly outputTokens?: string
  readonly body?: string
  readonly contentType?: string
  readonly form?: readonly string[]
  readonly path?: string
  readonly header?: readonly string[]
  readonly ca?: string
  readonly cert?: string
  readonly key?: string
  readonly insecureSkipVerify?: boolean
  readonly timeout?: string
  readonly http2?: boolean
  readonly seed: string
  readonly json?: boolean
  readonly html?: string
  readonly csv?: string
}

interface Problem {
  readonly where: string
  readonly what: string
  readonly hint?: string
}

/** All invalid flags. */
export class FlagError extends Error {
  readonly exitCode = exitCodes.usage
  constructor(readonly problems: readonly Problem[]) {
    super(problems.map((p) => `${p.where}: ${p.what}`).join('\n'))
    this.name = 'FlagError'
  }
}

/** @throws FlagError */
export function readFlags(
  flags: ProfileFlags,
): Omit<ProfileOptions, 'signal' | 'onStep' | 'onReason'> {
  const problems: Problem[] = []
  const read = <T>(flag: string, parse: () => T): T | undefined => {
    try {
      return parse()
    } catch (error) {
      const { message, hint } = error as Error & { hint?: string }
      problems.push({ where: `--${flag}`, what: message, hint })
      return undefined
    }
  }
  const readChoice = <T extends string>(
    flag: string,
    value: string,
    known: readonly T[],
  ): T | undefined => {
    const match = known.find((name) => name === value)
    if (match === undefined)
      problems.push({
        where: `--${flag}`,
        what: `unknown value '${value}'`,
        hint: `use one of ${known.join(', ')}`,
      })
    return match
  }
  const errorRate = read('error-rate', () => parseShare(flags.errorRate))
  const slo = read('slo', () => parseSloText(flags.slo, errorRate ?? 0))
  const seed = read('seed', () => parseCount(flags.seed, 0))
  const arrivals = read('arrivals', () => readArrivals(flags.arrivals))
  const tls = read(flags.ca === undefined ? 'cert' : 'ca', () => readTls(flags))
  const url = read('url', () => readUrl(flags.url)) ?? flags.url
  const missingTls = tls && explainMissingTls(url)
  if (missingTls !== undefined)
    problems.push({
      where:
        flags.ca !== undefined
          ? '--ca'
          : flags.cert !== undefined
            ? '--cert'
            : '--insecure-skip-verify',
      ...missingTls,
    })
  const prompts = read('input-tokens', () => readPrompts(flags))
  const payload = read('payload', () => readPayload(flags, seed ?? 1, arrivals?.order, prompts))
  const loads = read(flags.concurrency === undefined ? 'rate' : 'concurrency', () =>
    readLoads(flags),
  )
  const options = {
    url,
    model: flags.model,
    protocol:
      flags.protocol === undefined
        ? undefined
        : readChoice('protocol', flags.protocol, protocolNames),
    ...loads,
    arrivals: arrivals?.arrivals,
    durationS: read('duration', () => parseDurationMs(flags.duration) / 1000),
    effort: readChoice('effort', flags.effort, Object.keys(efforts) as (keyof typeof efforts)[]),
    template: flags.body,
    contentType: flags.contentType,
    form: read(flags.form === undefined ? 'body' : 'form', () => readForm(flags)),
    path: readPath(flags.path),
    headers: read('header', () => addAuthorization(url, readHeaders(flags.header ?? []))),
    tls,
    timeoutMs:
      flags.timeout === undefined
        ? undefined
        : read('timeout', () => parseDurationMs(flags.timeout!)),
    http2: flags.http2,
    metric: slo?.metric,
    limits: slo?.limits,
    seed,
  }
  if (problems.length > 0) throw new FlagError(problems)
  return {
    ...options,
    slo: slo!,
    payload: payload!,
  }
}

/** A single rate is profiled in detail; several rates or closed loops are a sweep. */
function readLoads({ rate, concurrency }: ProfileFlags): Pick<ProfileOptions, 'rateRps' | 'sweep'> {
  if (concurrency !== undefined) {
    if (rate !== undefined)
      throw new Error(
        '--concurrency is closed-loop load, --rate is open-loop load: use only one of them',
      )
    return {
      sweep: concurrency.split(',').map((text) => ({ connections: parseCount(text.trim(), 1) })),
    }
  }
  if (rate === undefined) return {}
  const rates = rate.split(',').map((text) => parseRateRps(text.trim()))
  return rates.length > 1 ? { sweep: rates.map((rateRps) => ({ rateRps })) } : { rateRps: rates[0] }
}

/** Lengths of prompts and answers; a missing one has its default. */
function readPrompts({
  inputTokens,
  outputTokens,
  payload,
  protocol,
}: ProfileFlags): PromptSpec | undefined {
  const prompts = resolvePrompts({
    ...(inputTokens !== undefined && { inputTokens: parseLengths(inputTokens) }),
    ...(outputTokens !== undefined && { outputTokens: parseLengths(outputTokens) }),
  })
  if (payload === undefined) return prompts
  if (prompts !== undefined)
    throw new Error('a file of prompts has its own lengths: use only one of them')
  const protocolName = protocolNames.find((name) => name === protocol)
  const streams =
    protocol === undefined || (protocolName !== undefined && protocolTable[protocolName].streams)
  return streams && isConversations(payload) ? resolvePrompts({}, { file: payload }) : undefined
}

function readPayload(
  { payload, items: asked, contentType }: ProfileFlags,
  seed: number,
  order: PayloadOrder | undefined,
  prompts: PromptSpec | undefined,
): PayloadSource {
  const items = asked === undefined ? undefined : parseItems(asked)
  if (items !== undefined && order?.items !== undefined)
    throw new Error('the trace already sets the items per request: leave --items out')
  const common = { seed, ...(items && { items }), ...(order && { order }) }
  if (payload === undefined || prompts !== undefined)
    return { kind: 'generated', ...(prompts && { prompts }), ...common }
  const kind = detectPayloadKind(payload)
  if (kind !== 'file') return { kind, path: payload, ...common }
  if (items !== undefined || order?.items !== undefined)
    throw new Error(`${payload} contains whole requests, so their items cannot be set`)
  const resolvedContentType = resolveContentType(payload, contentType)
  return {
    kind,
    path: payload,
    ...(resolvedContentType && { contentType: resolvedContentType }),
    ...(order && { order }),
  }
}

/** @throws PayloadError for an invalid template or a missing file */
function readForm({ form, body, contentType }: ProfileFlags): FormFields | undefined {
  const fields = form && parseFormFields(form)
  if (fields && (body !== undefined || contentType !== undefined))
    throw new Error('--form and --body exclude each other: use only one of them')
  const fault = findRequestFault({ template: body, contentType, form: fields })
  if (fault) throw new PayloadError(fault.what, fault.hint)
  for (const [, text] of listFields(fields ?? {})) {
    const missing = findFieldFileFault(text)
    if (missing) throw new PayloadError(missing.what, missing.hint)
  }
  return fields
}

/** A repeated name collects a list of values. */
function parseFormFields(texts: readonly string[]): FormFields {
  const fields: Record<string, string[]> = {}
  for (const text of texts) {
    const at = text.indexOf('=')
    if (at < 1) throw new PayloadError(`'${text}' is not name=value`, 'for example file=@clip.wav')
    const name = text.slice(0, at)
    fields[name] = [...(fields[name] ?? []), text.slice(at + 1)]
  }
  return fields
}

function readArrivals(text: string): { arrivals: Arrivals; order?: PayloadOrder } {
  const [kind, rest = ''] = text.split(/:(.*)/s)
  switch (kind) {
    case 'poisson':
    case 'constant':
      return { arrivals: { kind } }
    case 'gamma': {
      const cv = Number(rest)
      if (!(cv > 0)) throw new Error(`'${text}' needs a coefficient of variation, as in gamma:2`)
      return { arrivals: { kind, cv } }
    }
    case 'on-off': {
      const [on, off] = rest.split('/')
      if (on === undefined || off === undefined)
        throw new Error(`'${text}' needs two durations, as in on-off:1s/4s`)
      return {
        arrivals: { kind, onS: parseDurationMs(on) / 1000, offS: parseDurationMs(off) / 1000 },
      }
    }
    case 'trace': {
      const { file, unit } = parseTraceName(rest)
      const { atMs, order, readAs } = readTrace(file, file, unit)
      return { arrivals: { kind, atMs, readAs }, order }
    }
    default:
      throw new Error(
        `unknown arrivals '${text}': use poisson, constant, gamma:CV, on-off:ON/OFF or trace:FILE (trace:FILE:UNIT)`,
      )
  }
}

function readTls({ ca, cert, key, insecureSkipVerify }: ProfileFlags): TlsOptions | undefined {
  if ((cert === undefined) !== (key === undefined))
    throw new Error(`--cert and --key need each other; ${clientPairHint}`)
  if (ca === undefined && cert === undefined)
    return insecureSkipVerify ? { insecureSkipVerify } : undefined
  return {
    ...(ca !== undefined && { ca: readAuthority(ca) }),
    ...(cert !== undefined && key !== undefined && readClientPair(cert, key)),
    ...(insecureSkipVerify && { insecureSkipVerify }),
  }
}

/** Fills in references, and registers secrets to redact. */
function readUrl(text: string): string {
  const url = fillReferences(text)
  registerSecretsIn(url)
  return url
}

/** Registers secrets to redact. */
function readPath(path: string | undefined): string | undefined {
  if (path !== undefined) registerSecretsIn(path, true)
  return path
}

function readHeaders(lines: readonly string[]): Record<string, string> {
  const headers: Record<string, string> = {}
  for (const line of lines) {
    const header = parseHeader(line)
    if (!header) throw new Error(describeBadHeader(line))
    const name = header.name.toLowerCase()
    headers[name] = fillReferences(header.value)
    if (isSecretHeader(name)) registerSecret(headers[name])
  }
  return headers
}
