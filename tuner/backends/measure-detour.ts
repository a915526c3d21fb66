/**
 * What the way of users' requests (a Service, a gateway, a mesh's sidecars) adds to a predictor's
 * latency: one request at a time, by it and straight to the pod in turn.
 */
import {
  type Detour,
  HttpLoadGenerator,
  type LoadGenerator,
  summarise,
  type Target,
} from '../../profiler/index.ts'

/**
 * Each way is asked so often, and so long at a time: what the machine does meanwhile falls on both.
 */
const [rounds, roundS] = [3, 0.5]

interface Ways {
  /** The way in words. */
  readonly by: string
  readonly way: Target
  /** Undefined: the server's own address answers nobody, as behind a mesh that wants mutual TLS. */
  readonly direct: Target | undefined
}

/** @throws GeneratorError, the signal's reason */
export async function measureDetour(
  { by, way, direct }: Ways,
  signal: AbortSignal,
  generator: LoadGenerator = new HttpLoadGenerator(),
): Promise<Detour> {
  const taken: Record<'way' | 'direct', number[]> = { way: [], direct: [] }
  try {
    for (let round = 0; round < rounds; round++) {
      for (const [name, target] of [['way', way] as const, ['direct', direct] as const]) {
        if (target === undefined) continue
        const { latencyMs } = await generator.play(
          target,
          { kind: 'closed', connections: 1, durationS: roundS },
          signal,
        )
        taken[name].push(...latencyMs)
      }
    }
  } finally {
    await generator.close()
  }
  return { by, way: latenciesOf(taken.way), ...(direct && { direct: latenciesOf(taken.direct) }) }
}

function latenciesOf(latencyMs: readonly number[]): Detour['way'] {
  const { p50Ms, p99Ms } = summarise(Float64Array.from(latencyMs))
  return { requests: latencyMs.filter((ms) => !Number.isNaN(ms)).length, p50Ms, p99Ms }
}

/**
 * 'through the Service: p50 2.31 ms where the pod itself takes 2.1 ms (p99 4 and 3.6 ms), one
 * request at a time'
 */
export function detourSentence({ by, way, direct }: Detour): string {
  if (!(way.requests > 0))
    return `measured through ${by}; one request at a time none was answered there`
  const words = `measured through ${by}: p50 ${ms(way.p50Ms)}`
  if (direct === undefined || direct.requests === 0)
    return `${words}, one request at a time; the pod's own address answers nobody to compare with`
  const added = way.p50Ms - direct.p50Ms
  const more = `${added < 0 ? 'less' : 'more'} than straight to the pod`
  return `${words}, ${ms(Math.abs(added))} ${more} (p99 ${ms(way.p99Ms)} and ${ms(direct.p99Ms)}), one request at a time`
}

const ms = (value: number): string => `${Number(value.toPrecision(3))} ms`
