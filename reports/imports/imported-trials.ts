/**
 * Turns results of other load testers into trials: the loads of each configuration, and its
 * capacity under an SLO. Between two loads nothing is known.
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
import { isGpuTable, readGpuUsage } from './gpu-table.ts'
import {
  describeUnknowns,
  type ImportOptions,
  mapCollectingErrors,
  type ToolPoint,
} from './tool-point.ts'
import { keepVaryingParameters, labelFiles, readToolFile } from './tool-results.ts'

/** A file of results, and the user's configuration of its server. */
interface ImportedFile {
  readonly source: Source
  readonly configuration: Configuration
}

interface ImportedTrial {
  readonly configuration: Configuration
  readonly measurement: Measurement
  readonly usage?: Usage
  /** 'imported: TOOL, FILES'. */
  readonly why: string
}

interface ImportResult {
  /** 'Model Analyzer: metrics-model-inference.csv', one for each file. */
  readonly from: readonly string[]
  /** The served model, where the files agree on one. */
  readonly model?: string
  /** Whether a tool measures language model servers. */
  readonly language: boolean
  readonly trials: readonly [ImportedTrial, ...ImportedTrial[]]
}

/** A load with all figures that its file reports. */
interface ReportedLoad {
  readonly point: ToolPoint
  readonly tool: string
  readonly language: boolean
  readonly file: string
  readonly configuration: Configuration
  readonly usage?: Usage
  /** Latency in ms by percentile, as far as it is reported. */
  readonly percentiles: ReadonlyMap<number, number>
}

/**
 * @param slo of one limit
 * @param oneServer the files are loads on one server; else each file is a server of its own, unless
 * the user's configurations differ
 * @throws TableError with the problems of all files
 */
export function importTrials(
  files: readonly ImportedFile[],
  slo: Slo,
  oneServer: boolean,
): ImportResult {
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
  const usage = new Map(
    mapCollectingErrors(tables, ({ source }) => [...readGpuUsage(source)]).flat(),
  )
  const loadsByFile = mapCollectingErrors(results, (file) => readLoads(file, slo, usage))
  const alike =
    new Set(results.map(({ configuration }) => configurationKey(configuration))).size === 1
  const labels =
    results.length > 1 && alike && !oneServer
      ? labelFiles(results.map(({ source }) => source.file))
      : undefined
  const loads = loadsByFile.flatMap((each, i) =>
    each.map((one) =>
      labels ? { ...one, configuration: { ...one.configuration, file: labels[i]! } } : one,
    ),
  )
  const { points } = keepVaryingParameters(loads.map(({ point }) => point))
  const all = loads.map(
    (load, i): ReportedLoad => ({
      ...load,
      configuration: { ...load.configuration, ...points[i]!.configuration },
    }),
  )
  const groups = grouped(all, ({ configuration }) => configurationKey(configuration))
  const models = new Set(loads.flatMap(({ point }) => point.model ?? []))
  const [model] = models.size === 1 ? models : []
  return {
    from: results.map(({ source }, i) => `${loadsByFile[i]![0]!.tool}: ${source.file}`),
    ...(model !== undefined && { model }),
    language: loads.some(({ language }) => language),
    trials: [...groups.values()].map((group) => buildTrial(group, slo)) as [
      ImportedTrial,
      ...ImportedTrial[],
    ],
  }
}

/** Reads all loads of a file, with the other percentiles that it reports. */
function readLoads(
  { source, configuration }: ImportedFile,
  slo: Slo,
  usage: ReadonlyMap<string, Usage>,
): ReportedLoad[] {
  const { metric = 'e2e', percentile, limitMs, maxErrorRate } = slo
  const options: ImportOptions = { metric, percentile, limitMs, maxErrorRate, pricePerHour: 1 }
  const { tool, language = false, points } = readToolFile(source, options)
  mapCollectingErrors(points, ({ where, ratePerSecond, latencyMs }) => {
    for (const [what, value] of Object.entries({
      'requests per second': ratePerSecond,
      latency: latencyMs,
    }))
      if (value < 0) throw new TableError([{ where, what: `${what} of ${value}` }])
  })
  const others = storedPercentiles.map(([kept]) => kept).filter((kept) => kept !== percentile)
  const further = others.map(
    (one) => [one, readPercentile(source, { ...options, percentile: one })] as const,
  )
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

/** Reads a percentile of each load, ms; undefined if the tool does not report it. */
function readPercentile(source: Source, options: ImportOptions): number[] | undefined {
  try {
    return readToolFile(source, options).points.map(({ latencyMs }) => latencyMs)
  } catch (error) {
    if (error instanceof TableError) return undefined
    throw error
  }
}

function buildTrial(loads: readonly ReportedLoad[], slo: Slo): ImportedTrial {
  const [{ configuration, usage }] = loads as readonly [ReportedLoad]
  const unique = (of: (load: ReportedLoad) => string) => [...new Set(loads.map(of))]
  const where = `${unique(({ tool }) => tool).join(' and ')}, ${joinFirst(unique(({ point }) => basename(point.where)))}`
  return {
    configuration: {
      ...configuration,
      [sourceParameter]: joinFirst(unique(({ file }) => basename(file))),
    },
    measurement: buildMeasurement(loads, slo, where),
    ...(usage && { usage }),
    why: `imported: ${where}`,
  }
}

const maxNamed = 3
const joinFirst = (all: readonly string[]): string =>
  `${all.slice(0, maxNamed).join(', ')}${all.length > maxNamed ? ` and ${all.length - maxNamed} more` : ''}`

function buildMeasurement(loads: readonly ReportedLoad[], slo: Slo, where: string): Measurement {
  const points = loads.map((load) => buildLoadPoint(load, slo))
  const unloaded = points.find(({ load }) => load.kind === 'closed' && load.connections === 1)
  const sum = (values: readonly number[]) =>
    values.reduce((total, value) => total + (Number.isNaN(value) ? 0 : value), 0)
  const measurement: Measurement = {
    outcome: 'imported',
    capacityRps: 0,
    capacityCi90Rps: [0, 0],
    bounds: 'both',
    slo,
    unloaded: unloaded ?? noLatency,
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

function buildLoadPoint({ point, percentiles }: ReportedLoad, { percentile }: Slo): LoadPoint {
  const { ratePerSecond, errorRate = 0, requests = 0, seconds = Number.NaN } = point
  const failed = Math.round(errorRate * requests)
  const load = buildLoad(point, seconds)
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
 * A request rate is open load, with unknown arrivals; a concurrency or number of users a closed
 * loop.
 */
function buildLoad({ load, ratePerSecond }: ToolPoint, durationS: number): Load {
  const rateRps = Number(load.requestRate)
  if (rateRps > 0)
    return { kind: 'open', rateRps, arrivals: { kind: 'constant' }, durationS, seed: 0 }
  const connections = Number(load.concurrency ?? load.vus)
  // Without either: open load at the achieved rate.
  return connections > 0
    ? { kind: 'closed', connections, durationS }
    : { kind: 'open', rateRps: ratePerSecond, arrivals: { kind: 'constant' }, durationS, seed: 0 }
}
