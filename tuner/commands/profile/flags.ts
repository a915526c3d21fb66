/** The flags of `tune profile`, read into what the profiler takes; everything wrong with them at once. */
import { readFileSync } from 'node:fs'
import { type Arrivals, efforts, type ProfileOptions, type ProtocolName, type Slo } from '../../../profiler/index.ts'
import { exitCodes } from '../../exit-codes.ts'
import { sloParts } from '../../experiment/slo-text.ts'
import { parseCount, parseDurationMs, parsePercentile, parseRateRps, parseShare } from '../../experiment/units.ts'
import type { ProfileFlags } from '../profile.ts'

interface Problem {
  readonly where: string
  readonly what: string
  readonly hint?: string
}

/** Every flag that cannot be used. */
export class FlagError extends Error {
  readonly exitCode = exitCodes.usage
  constructor(readonly problems: readonly Problem[]) {
    super(problems.map((p) => `${p.where}: ${p.what}`).join('\n'))
    this.name = 'FlagError'
  }
}

const protocols: readonly ProtocolName[] = ['oip-v2', 'grpc-v2', 'tfserving', 'tfserving-grpc', 'json', 'openai']

/** Throws a FlagError. */
export function readFlags(flags: ProfileFlags): Omit<ProfileOptions, 'signal' | 'onStep'> {
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
  const oneOf = <T extends string>(flag: string, value: string, known: readonly T[]): T | undefined => {
    const found = known.find((name) => name === value)
    if (found === undefined) problems.push({ where: `--${flag}`, what: `'${value}' is not known`, hint: `one of ${known.join(', ')}` })
    return found
  }
  const slo = read('slo', () => readSlo(flags.slo))
  const errorRate = read('error-rate', () => parseShare(flags.errorRate))
  const seed = read('seed', () => parseCount(flags.seed, 0))
  const options = {
    url: flags.url,
    model: flags.model,
    protocol: flags.protocol === undefined ? undefined : oneOf('protocol', flags.protocol, protocols),
    rateRps: flags.rate === undefined ? undefined : read('rate', () => parseRateRps(flags.rate!)),
    arrivals: read('arrivals', () => readArrivals(flags.arrivals)),
    durationS: read('duration', () => parseDurationMs(flags.duration) / 1000),
    effort: oneOf('effort', flags.effort, Object.keys(efforts) as (keyof typeof efforts)[]),
    connections: flags.connections === undefined ? undefined : read('connections', () => parseCount(flags.connections!, 1)),
    template: flags.template,
    path: flags.path,
    headers: read('header', () => readHeaders(flags.header ?? [])),
    timeoutMs: read('timeout', () => parseDurationMs(flags.timeout)),
    http2: flags.http2,
    metric: slo?.metric,
    seed,
  }
  if (problems.length > 0) throw new FlagError(problems)
  return {
    ...options,
    slo: { ...slo!, maxErrorRate: errorRate! },
    payload: flags.payload === undefined ? { kind: 'generated', seed: seed!, count: 64 } : { kind: 'file', path: flags.payload },
  }
}

function readSlo(text: string): Omit<Slo, 'maxErrorRate'> {
  const { metric, percentile, limit } = sloParts(text)
  return { ...(metric && { metric }), percentile: parsePercentile(percentile), limitMs: parseDurationMs(limit) }
}

function readArrivals(text: string): Arrivals {
  const [kind, rest = ''] = text.split(/:(.*)/s)
  switch (kind) {
    case 'poisson':
    case 'constant':
      return { kind }
    case 'gamma': {
      const cv = Number(rest)
      if (!(cv > 0)) throw new Error(`'${text}' has no coefficient of variation, as in gamma:2`)
      return { kind, cv }
    }
    case 'on-off': {
      const [on, off] = rest.split('/')
      if (on === undefined || off === undefined) throw new Error(`'${text}' names no two durations, as in on-off:1s/4s`)
      return { kind, onS: parseDurationMs(on) / 1000, offS: parseDurationMs(off) / 1000 }
    }
    case 'trace': {
      const atMs = readFileSync(rest, 'utf8')
        .split(/\r?\n/)
        .filter((line) => line.trim() !== '')
        .map(Number)
      const wrong = atMs.findIndex((at) => !Number.isFinite(at))
      if (wrong >= 0) throw new Error(`${rest}:${wrong + 1} is no time in ms`)
      return { kind, atMs }
    }
    default:
      throw new Error(`'${text}' is not known: poisson, constant, gamma:CV, on-off:ON/OFF or trace:FILE`)
  }
}

function readHeaders(lines: readonly string[]): Record<string, string> {
  const headers: Record<string, string> = {}
  for (const line of lines) {
    const found = /^([!#$%&'*+.^_`|~\w-]+):\s*(.*)$/.exec(line)
    if (!found) throw new Error(`'${line}' is not a header: write 'Name: value'`)
    headers[found[1]!.toLowerCase()] = found[2]!
  }
  return headers
}
