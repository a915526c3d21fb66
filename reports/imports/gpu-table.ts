/**
 * Model Analyzer's metrics-model-gpu.csv: what its GPUs held and did, a row for each GPU,
 * configuration and load. It stands beside metrics-model-inference.csv.
 */

import { readHeaderLine, readTable, type Source } from '../../trials/table-text.ts'
import type { Usage } from '../../trials/types.ts'
import { each, figure, wanted } from './tool-point.ts'

export const isGpuTable = (source: Source): boolean => readHeaderLine(source).includes('GPU UUID')

type GpuUsage = Pick<Usage, 'gpuMemoryMiB' | 'gpuUtilization' | 'gpuWatts'>

const columns = {
  memory: 'GPU Memory Usage (MB)',
  busy: 'GPU Utilization (%)',
  watts: 'GPU Power Usage (W)',
} as const

/**
 * By path of the configuration, the load with the most in use: memory and power of all its GPUs
 * together, their mean utilisation.
 * @throws TableError
 */
export function gpuUsage(source: Source): ReadonlyMap<string, GpuUsage> {
  const table = readTable(source)
  const known = (name: string) =>
    wanted(
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
  const rows = each(table.rows, ({ where, cells }) => ({
    path: cells[path]!,
    load: JSON.stringify([cells[path], ...load.map((name) => cells[name])]),
    // Of a million bytes.
    memoryMiB: (figure(cells[memory], memory, where) * 1e6) / 2 ** 20,
    busy: figure(cells[busy], busy, where) / 100,
    watts: figure(cells[watts], watts, where),
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
