/**
 * Results of other load testers as trials: of each configuration the loads that were applied to it,
 * and what of them keeps an SLO. Nothing is measured here, and nothing between two loads is known.
 */

import { basename } from 'node:path'
import {
  buildImportedCurve,
  resolveImportedCapacity,
} from '../../profiler/capacity/rederive/imported-loads.ts'
import { noLatency, storedPercentiles } from '../../profiler/load/latency-summary.ts'
import type { Load } from '../../profiler/model/load.ts'
import type { LoadPoint } from '../../profiler/model/load-point.ts'
import type { Measurement } from '../../profiler/model/measurement.ts'
import type { Slo } from '../../profiler/model/slo.ts'
import { configurationKey } from '../../search/space/space.ts'
import type { Configuration } from '../../search/types.ts'
import { grouped } from '../../trials/grouped.ts'
import { sourceParameter } from '../../trials/resources.ts'
import { type Source, TableError } from '../../trials/table-text.ts'
import type { Usage } from '../../trials/types.ts'
import { gpuUsage, isGpuTable } from './gpu-table.ts'
import { describeUnknowns, each, type ImportOptions, type ToolPoint } from './tool-point.ts'
import { distinguished, labelsOf, readOne } from './tool-results.ts'

/** A file of results, and what the user says of the server that they are of. */
interface ImportedFile {
  readonly source: Source
  readonly configuration: Configuration
}

interface ImportedTrial {
  readonly configuration: Configuration
  readonly measurement: Measurement
  readonly usage?: Usage
  /** In words: the tool, and where the figures stand. */
  readonly why: string
}

interface Imported {
  /** 'Model Analyzer: metrics-model-inference.csv', one for each file. */
  readonly from: readonly string[]
  /** What was served, where the files say. */
  readonly model?: string
  /** The tools ask servers of language models. */
  readonly language: boolean
  readonly trials: readonly [ImportedTrial, ...ImportedTrial[]]
}

/** A load, as its file tells it. */
interface Told {
  readonly point: ToolPoint
  readonly tool: string
  readonly language: boolean
  readonly file: string
  readonly configuration: Configuration
  readonly usage?: Usage
  /** By percentile, ms, as far as it is told. */
  readonly percentiles: ReadonlyMap<number, number>
}

/**
 * @param slo of one limit
 * @param oneServer several files are loads on one server; else each is a server of its own, unless
 * what the user says tells them apart
 * @throws TableError with what is wrong with all the files
 */
export function importTrials(
  files: readonly ImportedFile[],
  slo: Slo,
  oneServer: boolean,
): Imported {
  const tables = files.filter(({ source }) => isGpuTable(source))
  const results = files.filter((file) => !tables.includes(file))
  if (results.length === 0) {
    const hint = 'also pass its metrics-model-inference.csv'
    throw new TableError([
      {
        where: tables[0]?.source.file ?? 'no file',
        what: 'it describes GPUs, but contains no requests',
        hint,
      },
    ])
  }
  const usage = new Map(each(tables, ({ source }) => [...gpuUsage(source)]).flat())
  const told = each(results, (file) => toldIn(file, slo, usage))
  const alike =
    new Set(results.map(({ configuration }) => configurationKey(configuration))).size === 1
  const labels =
    results.length > 1 && alike && !oneServer
      ? labelsOf(results.map(({ source }) => source.file))
      : undefined
  const loads = told.flatMap((each, i) =>
    each.map((one) =>
      labels ? { ...one, configuration: { ...one.configuration, file: labels[i]! } } : one,
    ),
  )
  const { points } = distinguished(loads.map(({ point }) => point))
  const all = loads.map(
    (load, i): Told => ({
      ...load,
      configuration: { ...load.configuration, ...points[i]!.configuration },
    }),
  )
  const groups = grouped(all, ({ configuration }) => configurationKey(configuration))
  const models = new Set(loads.flatMap(({ point }) => point.model ?? []))
  const [model] = models.size === 1 ? models : []
  return {
    from: results.map(({ source }, i) => `${told[i]![0]!.tool}: ${source.file}`),
    ...(model !== undefined && { model }),
    language: loads.some(({ language }) => language),
    trials: [...groups.values()].map((group) => trialOf(group, slo)) as [
      ImportedTrial,
      ...ImportedTrial[],
    ],
  }
}

/** All loads of a file, with what it tells of other percentiles than the SLO's. */
function toldIn(
  { source, configuration }: ImportedFile,
  slo: Slo,
  usage: ReadonlyMap<string, Usage>,
): Told[] {
  const { metric = 'e2e', percentile, limitMs, maxErrorRate } = slo
  const options: ImportOptions = { metric, percentile, limitMs, maxErrorRate, pricePerHour: 1 }
  const { tool, language = false, points } = readOne(source, options)
  each(points, ({ where, ratePerSecond, latencyMs }) => {
    for (const [what, value] of Object.entries({
      'requests per second': ratePerSecond,
      latency: latencyMs,
    }))
      if (value < 0) throw new TableError([{ where, what: `${what} of ${value}` }])
  })
  const others = storedPercentiles.map(([kept]) => kept).filter((kept) => kept !== percentile)
  const further = others.map((one) => [one, told(source, { ...options, percentile: one })] as const)
  return points.map((point, i) => {
    const used = usage.get(String(point.configuration.configuration))
    const known = further.flatMap(([one, values]) =>
      values === undefined ? [] : [[one, values[i]!] as const],
    )
    return {
      point,
      tool,
      language,
      file: source.file,
      configuration,
      percentiles: new Map([...known, [percentile, point.latencyMs] as const]),
      ...(used && { usage: used }),
    }
  })
}

/** A percentile of each load, ms; undefined where the tool does not report it. */
function told(source: Source, options: ImportOptions): number[] | undefined {
  try {
    return readOne(source, options).points.map(({ latencyMs }) => latencyMs)
  } catch (error) {
    if (error instanceof TableError) return undefined
    throw error
  }
}

function trialOf(loads: readonly Told[], slo: Slo): ImportedTrial {
  const [{ configuration, usage }] = loads as readonly [Told]
  const unique = (of: (load: Told) => string) => [...new Set(loads.map(of))]
  const where = `${unique(({ tool }) => tool).join(' and ')}, ${shortened(unique(({ point }) => basename(point.where)))}`
  return {
    configuration: {
      ...configuration,
      [sourceParameter]: shortened(unique(({ file }) => basename(file))),
    },
    measurement: measurementOf(loads, slo, where),
    ...(usage && { usage }),
    why: `imported: ${where}`,
  }
}

const named = 3
const shortened = (all: readonly string[]): string =>
  `${all.slice(0, named).join(', ')}${all.length > named ? ` and ${all.length - named} more` : ''}`

function measurementOf(loads: readonly Told[], slo: Slo, where: string): Measurement {
  const points = loads.map((load) => loadPoint(load, slo))
  const alone = points.find(({ load }) => load.kind === 'closed' && load.connections === 1)
  const sum = (values: readonly number[]) =>
    values.reduce((total, value) => total + (Number.isNaN(value) ? 0 : value), 0)
  const measurement: Measurement = {
    outcome: 'imported',
    capacityRps: 0,
    capacityCi90Rps: [0, 0],
    bounds: 'both',
    slo,
    unloaded: alone ?? noLatency,
    saturationRps: Math.max(...points.map(({ achievedRps }) => achievedRps)),
    points,
    requests: sum(points.map(({ requests }) => requests)),
    seconds: sum(points.map(({ seconds }) => seconds)),
    detail: where,
    caveats: describeUnknowns(loads),
  }
  const { capacityRps, capacityCi90Rps, bounds } = resolveImportedCapacity(
    measurement,
    slo,
    buildImportedCurve(measurement, slo),
  )
  return { ...measurement, capacityRps, capacityCi90Rps, bounds }
}

function loadPoint({ point, percentiles }: Told, { percentile }: Slo): LoadPoint {
  const { ratePerSecond, errorRate = 0, requests = 0, seconds = Number.NaN } = point
  const failed = Math.round(errorRate * requests)
  const load = loadOf(point, seconds)
  const ms = (of: number) => percentiles.get(of) ?? Number.NaN
  // Failed requests are the slowest ones.
  const missed = ratePerSecond === 0 || errorRate >= 1 - percentile
  return {
    ...noLatency,
    ...Object.fromEntries(storedPercentiles.map(([kept, name]) => [name, ms(kept)])),
    load,
    offeredRps: load.kind === 'open' ? load.rateRps : ratePerSecond,
    achievedRps: ratePerSecond,
    goodputRps: Number.NaN,
    requests: Math.round(requests),
    errors: failed,
    errorKinds: failed > 0 ? { failed } : {},
    sloMs: missed ? Number.POSITIVE_INFINITY : ms(percentile),
    sloCi95Ms: [0, Number.POSITIVE_INFINITY],
    generatorSaturated: false,
    latenessP99Ms: 0,
    seconds,
  }
}

/**
 * Rates are open load, of which the tools do not say how requests arrive; so many requests,
 * connections or users at a time a closed loop.
 */
function loadOf({ load, ratePerSecond }: ToolPoint, durationS: number): Load {
  const rateRps = Number(load.requestRate)
  if (rateRps > 0)
    return { kind: 'open', rateRps, arrivals: { kind: 'constant' }, durationS, seed: 0 }
  const connections = Number(load.concurrency ?? load.vus)
  // Where nothing says how many: as a rate that was reached.
  return connections > 0
    ? { kind: 'closed', connections, durationS }
    : { kind: 'open', rateRps: ratePerSecond, arrivals: { kind: 'constant' }, durationS, seed: 0 }
}
