/** Reads a server's own metrics under load at the measured rate, and checks their bounds. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Arrivals } from '../../profiler/model/load.ts'
import type { LoadGenerator } from '../../profiler/model/load-generator.ts'
import type { LoadRun } from '../../profiler/model/load-run.ts'
import type { Measurement } from '../../profiler/model/measurement.ts'
import type { MetricReading, ServerMetric } from '../../profiler/model/server-metric.ts'
import type { Target } from '../../profiler/model/target.ts'
import {
  evaluateMetric,
  formatMetric,
  hasMetric,
  listMetricNames,
  portPattern,
  type Scrape,
  type Scrapes,
} from '../../profiler/prometheus.ts'
import { get } from '../../profiler/protocols/http.ts'
import { formatUrl, parseServerAddress } from '../../profiler/server-address.ts'
import { findClosestNames } from '../../trials/near-names.ts'
import { InfeasibleError, LaunchError } from '../../trials/types.ts'
import type { MeasureTask } from './backend.ts'

type HttpTarget = Extract<Target, { kind: 'http' }>

/** Lead-in of the window, in which the queue fills, and the part whose scrapes count, seconds. */
const settleS = 0.5
const windowS = 2.5
/** Time between two scrapes. */
const scrapeIntervalMs = 500
/** Additional duration of a measurement with metrics, seconds. */
export const metricsWindowS = settleS + windowS

/** Request for metrics of a server, as JSON. */
export interface MetricsRequest {
  readonly asked: readonly ServerMetric[]
  readonly arrivals: Arrivals
  readonly seed: number
  /** The server's own address, if the load goes through a Service. */
  readonly directUrl?: string
}

/**
 * Adds the requested metrics to a measurement: repeats the load at its rate, and scrapes them
 * meanwhile.
 * @throws LaunchError for missing metrics, which no other configuration has either
 */
export async function addMetrics(
  measured: Measurement,
  { asked, directUrl, ...load }: MetricsRequest,
  target: Target,
  generator: LoadGenerator,
  signal: AbortSignal,
): Promise<Measurement> {
  const { capacityRps: rateRps } = measured
  if (asked.length === 0 || target.kind !== 'http' || !(rateRps > 0)) return measured
  return {
    ...measured,
    metrics: await readMetricsUnderLoad(
      asked,
      target,
      { ...load, rateRps },
      generator,
      signal,
      directUrl,
    ),
  }
}

async function readMetricsUnderLoad(
  requestedMetrics: readonly ServerMetric[],
  target: HttpTarget,
  load: Pick<MetricsRequest, 'arrivals' | 'seed'> & { readonly rateRps: number },
  generator: LoadGenerator,
  signal: AbortSignal,
  directUrl?: string,
): Promise<MetricReading[]> {
  const direct = directUrl === undefined ? target : { ...target, url: directUrl }
  const endpointsOf = new Map(
    requestedMetrics.map(({ from }) => [from, resolveEndpoints(direct, from)]),
  )
  const scrapeAll = (from: string) =>
    Promise.all(endpointsOf.get(from)!.map((endpoint) => scrape(endpoint, signal)))
  // Scrape once before the load, so that a wrong path costs no window.
  for (const from of endpointsOf.keys()) await scrapeAll(from)
  let loadEnded = false
  const loadRun = generator
    .play(target, { kind: 'open', ...load, durationS: metricsWindowS }, signal)
    .then((run) => ({ run, endS: performance.now() / 1000 }))
    .finally(() => {
      loadEnded = true
    })
  try {
    const scrapesOf = new Map<string, Scrape[][]>(
      [...endpointsOf].map(([from, servers]) => [from, servers.map(() => [])]),
    )
    while (!loadEnded) {
      await Promise.race([sleep(scrapeIntervalMs, undefined, { signal }), loadRun])
      for (const from of endpointsOf.keys())
        for (const [i, one] of (await scrapeAll(from)).entries()) scrapesOf.get(from)![i]!.push(one)
    }
    const { run, endS } = await loadRun
    return requestedMetrics.map(({ name, labels, max, from }) => {
      const underLoad = scrapesOf.get(from)!.map((all) => selectScrapesUnderLoad(all, run, endS))
      const value = evaluateMetric({ name, labels }, underLoad)
      if (
        value === undefined &&
        !underLoad.every((scrapes) => hasMetric({ name, labels }, scrapes.at(-1)!.text))
      )
        throw createMissingMetricError({ name, labels }, endpointsOf.get(from)!, underLoad)
      return {
        name,
        ...(labels && { labels }),
        ...(max !== undefined && { max }),
        value: value ?? Number.NaN,
      }
    })
  } finally {
    await loadRun.catch(() => undefined)
  }
}

/**
 * Scrapes between the lead-in and the last request. The load may begin late, because a generator
 * may have to start first. If fewer than two remain, all scrapes count.
 */
function selectScrapesUnderLoad(
  all: readonly Scrape[],
  { elapsedS, seconds }: LoadRun,
  endS: number,
): readonly Scrape[] {
  const beginS = endS - elapsedS
  const within = all.filter(({ atS }) => atS >= beginS + settleS && atS <= beginS + seconds)
  return within.length > 1 ? within : all
}

/**
 * A trial that exceeds a bound is infeasible; a confirmation gets a caveat. An unknown metric
 * exceeds no bound, but a caveat says so.
 * @throws InfeasibleError with the first exceeded bound of a trial
 */
export function enforceBounds(
  measured: Measurement,
  task: MeasureTask['kind'],
  logPath: string | undefined,
): Measurement {
  const bounded = measured.metrics?.filter(({ max }) => max !== undefined) ?? []
  const unknown = bounded.filter(({ value }) => typeof value !== 'number' || Number.isNaN(value))
  if (unknown.length > 0)
    measured = {
      ...measured,
      caveats: [
        ...measured.caveats,
        ...unknown.map(
          (one) =>
            `${formatMetric(one)} is unknown: the server did not report it under load, so its bound of ${one.max} was not checked`,
        ),
      ],
    }
  const exceeded = bounded.find(({ value, max }) => value > max!)
  if (exceeded === undefined) return measured
  const words = `${formatMetric(exceeded)} is ${Number(exceeded.value.toPrecision(4))} at ${Number(measured.capacityRps.toPrecision(3))} requests per second, over its bound of ${exceeded.max}`
  if (task === 'trial') throw new InfeasibleError('over-bound', words, logPath)
  return { ...measured, caveats: [...measured.caveats, words] }
}

/** Address of a metrics page, and how to request it. */
interface MetricsEndpoint {
  readonly url: string
  /**
   * Headers, certificates and HTTP/2 of the server; another port or host is requested without them.
   */
  readonly access: Parameters<typeof get>[1]
}

/** A path or port is requested from every replica; a URL is a single page. */
function resolveEndpoints(target: HttpTarget, from: string): MetricsEndpoint[] {
  const servers = (target.replicas ?? [target]).map(({ url, headers }) => ({
    ...target,
    url,
    headers,
  }))
  if (/^https?:/i.test(from)) {
    const server = servers.find(
      ({ url }) => parseServerAddress(url)?.origin === parseServerAddress(from)?.origin,
    )
    return [{ url: from, access: server ?? { headers: {} } }]
  }
  const places = servers.map((access): MetricsEndpoint => {
    const address = parseServerAddress(access.url)
    const [, port, path = '/metrics'] = portPattern.exec(from) ?? []
    const host =
      address === undefined || address.socketPath !== undefined
        ? 'localhost'
        : new URL(address.origin).hostname
    if (port !== undefined) return { url: `http://${host}:${port}${path}`, access: { headers: {} } }
    return {
      url:
        address === undefined ? from : formatUrl(address, from.startsWith('/') ? from : `/${from}`),
      access,
    }
  })
  // Replicas on one host share such a port, so it is scraped once.
  return portPattern.test(from)
    ? places.filter(({ url }, i) => places.findIndex((other) => other.url === url) === i)
    : places
}

async function scrape({ url, access }: MetricsEndpoint, signal: AbortSignal): Promise<Scrape> {
  const hint =
    "set their place: metrics: {name: ..., from: /metrics}, or from: ':8002/metrics' for another port"
  try {
    const { status, text } = await get(url, access, signal)
    if (status !== 200)
      throw new LaunchError(`metrics: ${url} answers ${status}`, hint, undefined, 'experiment')
    return { atS: performance.now() / 1000, text }
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof LaunchError) throw error
    throw new LaunchError(
      `metrics: ${url} cannot be read: ${(error as Error).message}`,
      hint,
      undefined,
      'experiment',
    )
  }
}

/** Names the first of several servers that lacks the metric. */
function createMissingMetricError(
  requestedMetric: Pick<ServerMetric, 'name' | 'labels'>,
  endpoints: readonly MetricsEndpoint[],
  scrapes: readonly Scrapes[],
): LaunchError {
  const pages = scrapes.map((ofEndpoint) => listMetricNames(ofEndpoint.at(-1)!.text))
  const has = (names: readonly string[]) =>
    names.includes(requestedMetric.name) || names.includes(`${requestedMetric.name}_count`)
  const lackingIndex = Math.max(
    0,
    pages.findIndex((names) => !has(names)),
  )
  const names = pages[lackingIndex]!
  const near = findClosestNames(requestedMetric.name, names)
  const hint = has(names)
    ? 'the server reported no values of it under load, or none with these labels'
    : near.length > 0
      ? `did you mean ${near.join(', ')}?`
      : `it has ${names.slice(0, 12).join(', ')}${names.length > 12 ? ', ...' : ''}`
  return new LaunchError(
    `metrics: no ${formatMetric(requestedMetric)} at ${endpoints[lackingIndex]!.url}`,
    hint,
    undefined,
    'experiment',
  )
}
