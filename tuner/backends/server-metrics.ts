/** A server's own metrics under load, at the rate that was measured: what a bound on them is held against. */
import { setTimeout as sleep } from 'node:timers/promises'
import { type AskedMetric, type MetricReading, metricNames, metricText, readingOf, type Scrape } from '../../profiler/prometheus.ts'
import { get } from '../../profiler/protocols/http.ts'
import { hrefOf, serverAddress } from '../../profiler/server-address.ts'
import type { Load, LoadGenerator, Target } from '../../profiler/types.ts'
import { closest } from '../../trials/devices/device-model-error.ts'
import { LaunchError } from '../../trials/types.ts'

type HttpTarget = Extract<Target, { kind: 'http' }>

/** Of the window at that rate, seconds: what comes before the first look is the queue filling. */
const settleS = 0.5
const windowS = 2.5
const looks = 5

/**
 * Plays the load once more at a rate and looks at the metrics meanwhile.
 * @throws LaunchError for metrics that are not to be had: no other configuration has them either
 */
export async function metricsUnderLoad(
  asked: readonly AskedMetric[],
  target: HttpTarget,
  load: Extract<Load, { kind: 'open' }>,
  generator: LoadGenerator,
  signal: AbortSignal,
): Promise<MetricReading[]> {
  const places = [...new Set(asked.map(({ from }) => from))]
  // They are looked for first: a path that is wrong costs no window.
  for (const from of places) await scrape(target, from, signal)
  const played = generator.play(target, { ...load, durationS: settleS + windowS }, signal)
  try {
    await sleep(settleS * 1000, undefined, { signal })
    const seen = new Map<string, Scrape[]>(places.map((from) => [from, []]))
    for (let look = 0; look < looks; look++) {
      if (look > 0) await sleep((windowS * 1000) / looks, undefined, { signal })
      for (const from of places) seen.get(from)!.push(await scrape(target, from, signal))
    }
    return asked.map(({ name, labels, max, from }) => {
      const value = readingOf({ name, labels }, seen.get(from)!)
      if (value === undefined) throw absent({ name, labels }, placeOf(target, from), seen.get(from)!.at(-1)!.text)
      return { name, ...(labels && { labels }), ...(max !== undefined && { max }), value }
    })
  } finally {
    await played.catch(() => undefined)
  }
}

/** The first that is over its bound, in words; undefined where all keep theirs. */
export function overBound(readings: readonly MetricReading[], rateRps: number): string | undefined {
  const over = readings.find(({ value, max }) => max !== undefined && !(value <= max))
  return (
    over &&
    `${metricText(over)} is ${Number(over.value.toPrecision(4))} at ${Number(rateRps.toPrecision(3))} requests per second, over its bound of ${over.max}`
  )
}

function placeOf({ url }: HttpTarget, from: string): string {
  const address = serverAddress(url)
  return /^https?:/i.test(from) || address === undefined ? from : hrefOf(address, from.startsWith('/') ? from : `/${from}`)
}

/** Keys, certificates and HTTP/2 are the server's own: another port or host is asked without them. */
function isItsOwn(target: HttpTarget, url: string): boolean {
  const [own, asked] = [target.url, url].map(serverAddress)
  return own?.origin === asked?.origin
}

async function scrape(target: HttpTarget, from: string, signal: AbortSignal): Promise<Scrape> {
  const url = placeOf(target, from)
  const hint = 'say where they are: metrics: {name: ..., from: /metrics}, or a URL of another port'
  try {
    const { status, text } = await get(url, isItsOwn(target, url) ? target : { headers: {} }, signal)
    if (status !== 200) throw new LaunchError(`metrics: ${url} answers ${status}`, hint, undefined, 'experiment')
    return { atS: performance.now() / 1000, text }
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof LaunchError) throw error
    throw new LaunchError(`metrics: ${url} cannot be read: ${(error as Error).message}`, hint, undefined, 'experiment')
  }
}

function absent(asked: Pick<AskedMetric, 'name' | 'labels'>, url: string, text: string): LaunchError {
  const names = metricNames(text)
  const near = closest(asked.name, names)
  const has =
    names.includes(asked.name) || names.includes(`${asked.name}_count`)
      ? 'nothing was observed of it under load, or not with those labels'
      : near.length > 0
        ? `did you mean ${near.join(', ')}?`
        : `it has ${names.slice(0, 12).join(', ')}${names.length > 12 ? ', ...' : ''}`
  return new LaunchError(`metrics: no ${metricText(asked)} at ${url}`, has, undefined, 'experiment')
}
