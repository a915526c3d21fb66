/**
 * A client of models that are served, which shares no code with the tuner: its own arrivals, its
 * own HTTP, its own percentiles. As a program it reads {speed, hours, models: [{name, sloMs,
 * percentile, trace, replicas: [{url, weight}]}]} from stdin and prints what it saw of each model;
 * `trace` is the text of 'seconds,requests per second' lines.
 */
import http from 'node:http'
import { fileURLToPath } from 'node:url'

export interface Played {
  readonly speed: number
  readonly hours: number
}
interface Replica {
  readonly url: string
  readonly weight: number
}
export interface ClientModel {
  readonly name: string
  readonly sloMs: number
  readonly percentile: number
  readonly trace: string
  readonly replicas: readonly Replica[]
}
/** `ms` undefined: not answered, or not well. */
interface Answer {
  readonly ms: number | undefined
  readonly traceS: number
}
type Random = () => number

/** Steps of a trace, in the order of time, the last one as long as the one before. */
function stepsOf(trace: string) {
  const rows = trace
    .trim()
    .split('\n')
    .map((line) => line.split(',').map(Number))
    .filter((row) => row.length === 2 && row.every(Number.isFinite))
  return rows.map(([fromS = 0, rps = 0], i) => ({
    fromS,
    rps,
    untilS: rows[i + 1]?.[0] ?? 2 * fromS - rows[i - 1]![0]!,
  }))
}

/**
 * Times of a Poisson process, ms from the beginning, of a trace that runs `speed` times as fast at
 * the same rates; each with the second of the trace it belongs to.
 */
export function arrivalsOf(trace: string, { speed, hours }: Played, random: Random) {
  const arrivals: { readonly atMs: number; readonly traceS: number }[] = []
  for (const { fromS, rps, untilS } of stepsOf(trace)) {
    const until = (1000 * Math.min(untilS, hours * 3600)) / speed
    let at = (1000 * fromS) / speed
    for (;;) {
      at += (-1000 * Math.log(1 - random())) / rps
      if (!(at < until)) break
      arrivals.push({ atMs: at, traceS: (at * speed) / 1000 })
    }
  }
  return arrivals
}

/** The index of a replica, as often as its weight is of all. */
export function choose(replicas: readonly Pick<Replica, 'weight'>[], random: Random): number {
  const total = replicas.reduce((sum, { weight }) => sum + weight, 0)
  let left = random() * total
  for (const [i, { weight }] of replicas.entries()) {
    left -= weight
    if (left < 0) return i
  }
  return 0
}

/**
 * What a model's answers came to: percentile by counting, failed ones as slower than anything; and
 * that of each hour of the trace that had enough of them.
 */
export function summaryOf(
  answers: readonly Answer[],
  { sloMs, percentile }: Pick<ClientModel, 'sloMs' | 'percentile'>,
) {
  const at = (some: readonly Answer[]): number => {
    const sorted = some.map(({ ms }) => ms ?? Number.MAX_VALUE).sort((a, b) => a - b)
    return sorted[Math.ceil(percentile * sorted.length) - 1]!
  }
  const hours = [...new Set(answers.map(({ traceS }) => Math.floor(traceS / 3600)))].map((hour) =>
    answers.filter((one) => Math.floor(one.traceS / 3600) === hour),
  )
  const worst = Math.max(...hours.filter((some) => some.length >= 3 / (1 - percentile)).map(at), 0)
  const failed = answers.filter(({ ms }) => ms === undefined).length
  const over = answers.filter(({ ms }) => ms === undefined || ms > sloMs).length
  return {
    requests: answers.length,
    failed,
    over,
    sloMs: at(answers),
    worstHourMs: worst,
    kept: answers.length > 0 && at(answers) <= sloMs,
  }
}

/**
 * Sends one request; resolves with how long it took from the time at which it was due, undefined
 * where it was not answered well.
 */
function ask(
  agent: http.Agent,
  url: string,
  model: string,
  dueMs: number,
): Promise<number | undefined> {
  const body = JSON.stringify({
    inputs: [{ name: 'text', shape: [1], datatype: 'BYTES', data: ['how long does this take?'] }],
  })
  return new Promise((resolve) => {
    const request = http.request(
      `${url}/v2/models/${model}/infer`,
      {
        method: 'POST',
        agent,
        headers: { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) },
      },
      (response) => {
        response.resume()
        response.on('end', () =>
          resolve(
            response.statusCode === 200 && response.complete
              ? performance.now() - dueMs
              : undefined,
          ),
        )
        response.on('error', () => resolve(undefined))
      },
    )
    request.setTimeout(30_000, () => request.destroy())
    request.on('error', () => resolve(undefined))
    request.end(body)
  })
}

export type ClientSaw = ReturnType<typeof summaryOf> & {
  readonly name: string
  readonly lateMs: number
}

async function playModel(model: ClientModel, plan: Played, startMs: number): Promise<ClientSaw> {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 256 })
  const answers: Promise<Answer>[] = []
  let lateMs = 0
  for (const { atMs, traceS } of arrivalsOf(model.trace, plan, Math.random)) {
    const dueMs = startMs + atMs
    const waitMs = dueMs - performance.now()
    if (waitMs > 0) await new Promise((resolve) => setTimeout(resolve, waitMs))
    lateMs = Math.max(lateMs, performance.now() - dueMs)
    const { url } = model.replicas[choose(model.replicas, Math.random)]!
    answers.push(ask(agent, url, model.name, dueMs).then((ms) => ({ ms, traceS })))
  }
  const all = await Promise.all(answers)
  agent.destroy()
  return {
    name: model.name,
    lateMs,
    ...summaryOf(all, { sloMs: model.sloMs, percentile: model.percentile }),
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  let text = ''
  for await (const chunk of process.stdin) text += chunk
  const plan = JSON.parse(text) as Played & { readonly models: readonly ClientModel[] }
  const startMs = performance.now() + 500
  const played = await Promise.all(plan.models.map((model) => playModel(model, plan, startMs)))
  process.stdout.write(`${JSON.stringify(played)}\n`)
}

/** Uniform in [0, 1), of the client's own (mulberry32). */
export function randomOf(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296
  }
}
