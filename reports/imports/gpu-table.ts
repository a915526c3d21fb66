/**
 * Model Analyzer's metrics-model-gpu.csv: GPU memory, utilisation and power, a row for each GPU,
 * configuration and load. It belongs to metrics-model-inference.csv.
 */

import { readHeaderLine, readTable, type Source } from '../../trials/table-text.ts'
import type { Usage } from '../../trials/types.ts'
import { mapCollectingErrors, parseFigure, requireFound } from './tool-point.ts'

export const isGpuTable = (source: Source): boolean => readHeaderLine(source).includes('GPU UUID')

type GpuUsage = Pick<Usage, 'gpuMemoryMiB' | 'gpuUtilization' | 'gpuWatts'>

const columns = {
  memory: 'GPU Memory Usage (MB)',
  busy: 'GPU Utilization (%)',
  watts: 'GPU Power Usage (W)',
} as const

/**
 * GPU usage by path of the configuration, the highest of its loads: memory and power summed over the
 * GPUs, utilisation averaged.
 * @throws TableError
 */
export function readGpuUsage(source: Source): ReadonlyMap<string, GpuUsage> {
  const table = readTable(source)
  const known = (name: string) =>
    requireFound(
      table.columns.find((column) => column === name),
      `column '${name}'`,
      source.file,
      table.columns,
    )
  const path = known('Model Config Path')
  const [memory, busy, watts] = [known(columns.memory), known(columns.busy), known(columns.watts)]
  const load = ['Batch', 'Concurrency', 'Request Rate'].filter((name) =>
    table.columns.includes(name),
  )
  const rows = mapCollectingErrors(table.rows, ({ where, cells }) => ({
    path: cells[path]!,
    load: JSON.stringify([cells[path], ...load.map((name) => cells[name])]),
    // A MB here is a million bytes.
    memoryMiB: (parseFigure(cells[memory], memory, where) * 1e6) / 2 ** 20,
    busy: parseFigure(cells[busy], busy, where) / 100,
    watts: parseFigure(cells[watts], watts, where),
  }))
  const usage = new Map<string, Required<GpuUsage>>()
  for (const load of new Set(rows.map((row) => row.load))) {
    const gpus = rows.filter((row) => row.load === load)
    const sum = (of: 'memoryMiB' | 'busy' | 'watts') =>
      gpus.reduce((total, row) => total + row[of], 0)
    const before = usage.get(gpus[0]!.path)
    usage.set(gpus[0]!.path, {
      gpuMemoryMiB: Math.max(sum('memoryMiB'), before?.gpuMemoryMiB ?? 0),
      gpuUtilization: Math.max(sum('busy') / gpus.length, before?.gpuUtilization ?? 0),
      gpuWatts: Math.max(sum('watts'), before?.gpuWatts ?? 0),
    })
  }
  return usage
}
