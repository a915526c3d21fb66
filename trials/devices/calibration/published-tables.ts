/** Published tables of measurements, classified by their columns. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { readTable } from '../../table-text.ts'
import { type Architecture, findArchitecture } from '../architecture.ts'
import { findGpu, type Gpu, type Precision, precisions } from '../catalogue.ts'
import { DeviceModelError } from '../device-model-error.ts'

export interface LatencyRow {
  readonly table: string
  readonly architecture: Architecture
  readonly gpu: Gpu
  readonly precision: Precision
  /** Lower case; 'tensorrt' where the table names none. */
  readonly runtime: string
  readonly batch: number
  readonly sequenceLength?: number
  readonly latencyMs: number
}
export interface ShareRow extends LatencyRow {
  /** Part of the GPU under MPS, 0-1. */
  readonly share: number
}
export interface MemoryRow {
  readonly architecture: Architecture
  readonly gpu: Gpu
  readonly batch: number
  readonly gpuMemoryMiB: number
}
export interface Tables {
  readonly latency: LatencyRow[]
  readonly share: ShareRow[]
  readonly memory: MemoryRow[]
  /** Skipped rows with an unknown GPU, model or precision: 'table: reason' → count. */
  readonly skipped: Map<string, number>
}

/**
 * Reads every CSV file of a folder. Rows need model, gpu, batch and latencyMs. A column
 * gpuSharePercent or gpuMemoryMiB makes them rows of shares or memory.
 */
export function readTables(directory: string): Tables {
  const tables: Tables = { latency: [], share: [], memory: [], skipped: new Map() }
  for (const file of readdirSync(directory)
    .filter((f) => f.endsWith('.csv'))
    .sort()) {
    const { columns, rows } = readTable({ file, text: readFileSync(join(directory, file), 'utf8') })
    if (!columns.includes('latencyMs') || !columns.includes('gpu')) continue
    for (const { cells } of rows) {
      try {
        addRow(tables, file, cells)
      } catch (error) {
        if (!(error instanceof DeviceModelError)) throw error
        const reason = `${file}: ${error.message}`
        tables.skipped.set(reason, (tables.skipped.get(reason) ?? 0) + 1)
      }
    }
  }
  return { ...tables, latency: keepFastest(tables.latency) }
}

const tablesFolder = fileURLToPath(new URL('../tables', import.meta.url))
/** Tables that the model is fitted to. */
export const readPublishedTables = (): Tables => readTables(tablesFolder)
/** Tables that no coefficient is fitted to. */
export const readHeldOutTables = (): Tables => readTables(join(tablesFolder, 'held-out'))
/** Latencies of one held-out table. */
export const readHeldOutLatencies = (table: string): LatencyRow[] =>
  readHeldOutTables().latency.filter((row) => row.table === table)

function addRow(tables: Tables, table: string, row: Readonly<Record<string, string>>): void {
  const architecture = parseArchitectureCells(row)
  const gpu = findGpu(row.gpu!)
  const batch = Number(row.batch)
  if (row.gpuMemoryMiB) {
    tables.memory.push({ architecture, gpu, batch, gpuMemoryMiB: Number(row.gpuMemoryMiB) })
    return
  }
  const precision = precisions.find((p) => p === (row.precision || 'fp32'))
  if (precision === undefined) throw new DeviceModelError(`unknown precision '${row.precision}'`)
  const latency: LatencyRow = {
    table,
    architecture,
    gpu,
    precision,
    runtime: (row.runtime || 'tensorrt').toLowerCase(),
    batch,
    sequenceLength: row.sequenceLength ? Number(row.sequenceLength) : undefined,
    latencyMs: Number(row.latencyMs),
  }
  if (row.gpuSharePercent)
    tables.share.push({ ...latency, share: Number(row.gpuSharePercent) / 100 })
  else tables.latency.push(latency)
}

/**
 * Resolves names such as 'caffe:vgg_s:1' and 'resnet50v1.5'. An unknown encoder is built from its
 * columns layers and hidden.
 */
function parseArchitectureCells(row: Record<string, string>): Architecture {
  const name = row
    .model!.replace(/^caffe:|:\d+$/g, '')
    .replace('_', '-')
    .replace(/v1\.5$/, '')
  try {
    return findArchitecture(name)
  } catch (error) {
    const [layers, hidden] = [Number(row.layers), Number(row.hidden)]
    if (!(layers > 0 && hidden > 0)) throw error
    const intermediate = Number(row.intermediate) || 4 * hidden
    return {
      kind: 'encoder',
      name,
      layers,
      hidden,
      heads: hidden / 64,
      intermediate,
      vocabulary: 30522,
      maxSequenceLength: 512,
    }
  }
}

/** Keeps the fastest of repeated rows: slower ones were limited by their host. */
function keepFastest(rows: readonly LatencyRow[]): LatencyRow[] {
  const best = new Map<string, LatencyRow>()
  for (const row of rows) {
    const key = [
      row.table,
      row.architecture.name,
      row.gpu.name,
      row.precision,
      row.runtime,
      row.batch,
      row.sequenceLength,
    ].join()
    const known = best.get(key)
    if (known === undefined || row.latencyMs < known.latencyMs) best.set(key, row)
  }
  return [...best.values()]
}
