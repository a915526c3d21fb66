/**
 * Replicas of a model as a table has them: a row each, with where it ran, what it carried, and how
 * long that took.
 */
import { findGpu, type Gpu } from '../../trials/devices/catalogue.ts'
import { migProfilesOf } from '../../trials/devices/mig.ts'
import { CsvError, type CsvRecord, csvRecords } from '../report/csv.ts'
import { FleetError, type Segment, whole } from './packing.ts'

/** Names of columns, in lower case and without separators; ParvaGPU's among them. */
const known = {
  gpu: ['gpu', 'gpumodel'],
  slice: ['slice', 'profile', 'migprofile', 'gpuslices'],
  rate: ['throughputrps', 'raterps', 'capacityrps', 'requestspersecond', 'throughput'],
  latency: ['latencyms', 'p99ms', 'latency'],
  infeasible: ['infeasible'],
  share: ['gpusharepercent', 'mpspercent'],
  memory: ['memorymib', 'gpumemorymib'],
} as const
const unread = ['priceperhour']
const hint =
  'a CSV with columns gpu, slice (1g.10gb, a number of compute slices, or whole), throughputRps, latencyMs; others are told with the row'

const sharedHint =
  'what a batch takes, and GPU memory that its processes hold: beside others it is slower, and their memory must fit together'

/**
 * @param onGpu what rows ran on that do not say
 * @param sloMs rows that took longer serve nothing; absent: all serve
 * @throws FleetError that names the line
 */
export function readSegments(
  text: string,
  shown: string,
  onGpu: string | undefined,
  sloMs = Number.POSITIVE_INFINITY,
): Segment[] {
  const [header, ...records] = recordsIn(text, shown)
  const names = (header?.cells ?? []).map((cell) => cell.toLowerCase().replace(/[\s_-]/g, ''))
  const at = Object.fromEntries(
    Object.entries(known).map(([column, all]) => [
      column,
      names.findIndex((name) => (all as readonly string[]).includes(name)),
    ]),
  ) as Record<keyof typeof known, number>
  if (at.rate < 0 || (Number.isFinite(sloMs) && at.latency < 0))
    throw new FleetError(`${shown} has no column of ${at.rate < 0 ? 'rates' : 'latencies'}`, hint)
  const told = names.map((name, i) =>
    Object.values(at).includes(i) || unread.includes(name) ? undefined : header!.cells[i],
  )
  return records.flatMap(({ cells, line }) => {
    const number = (column: 'rate' | 'latency' | 'share' | 'memory'): number => {
      const cell = cells[at[column]] ?? ''
      const value = cell.trim() === '' ? Number.NaN : Number(cell)
      if (!(value > 0 && Number.isFinite(value)))
        throw new FleetError(`${shown}:${line}: '${cell}' is no ${column} above 0`, hint)
      return value
    }
    if (isTrue(cells[at.infeasible])) return []
    const rateRps = number('rate')
    if (at.latency >= 0 && number('latency') > sloMs) return []
    const gpu = gpuOf(cells[at.gpu] ?? onGpu, `${shown}:${line}`)
    const values = Object.fromEntries(
      told.flatMap((name, i) =>
        name === undefined || cells[i] === undefined ? [] : [[name, cells[i]]],
      ),
    )
    const label = Object.entries(values)
      .map(([name, value]) => `${name} ${value}`)
      .join(', ')
    const memoryMiB = cells[at.memory]?.trim() ? number('memory') : undefined
    const memory = memoryMiB === undefined ? {} : { memoryMiB }
    const row = { gpu: gpu.name, gpus: 1, rateRps, label, ...memory, row: { line, values } }
    const limited =
      at.latency >= 0 && Number.isFinite(sloMs)
        ? { latencyMs: number('latency'), limitMs: sloMs }
        : {}
    const percent = cells[at.share]?.trim() ? number('share') : 100
    if (percent > 100)
      throw new FleetError(`${shown}:${line}: '${cells[at.share]}' is no share of a GPU`, hint)
    if (percent === 100)
      return [{ ...row, ...limited, slice: sliceOf(cells[at.slice], gpu, `${shown}:${line}`) }]
    if (at.latency < 0 || at.memory < 0)
      throw new FleetError(
        `${shown}: rows on shares of a GPU need ${at.latency < 0 ? 'latencyMs' : 'memoryMiB'}`,
        sharedHint,
      )
    const shared = {
      slice: `${percent}%`,
      share: percent / 100,
      latencyMs: number('latency'),
      limitMs: sloMs,
      memoryMiB: number('memory'),
    }
    return [{ ...row, ...shared }]
  })
}

function recordsIn(text: string, shown: string): CsvRecord[] {
  try {
    return csvRecords(text)
  } catch (error) {
    if (error instanceof CsvError)
      throw new FleetError(`${shown}:${error.line}: ${error.what}`, hint)
    throw error
  }
}

const isTrue = (cell: string | undefined): boolean =>
  cell !== undefined && /^(1|true|yes)$/i.test(cell.trim())

function gpuOf(name: string | undefined, where: string): Gpu {
  if (name === undefined || name.trim() === '')
    throw new FleetError(
      `${where}: which GPU this ran on is not said`,
      "add a column 'gpu', or gpu: to the model",
    )
  try {
    return findGpu(name.trim())
  } catch (error) {
    throw new FleetError(`${where}: ${(error as Error).message}`, hint)
  }
}

/** '1g.10gb', '2' (compute slices, with the least memory there is of them), 'whole' or nothing. */
function sliceOf(cell: string | undefined, gpu: Gpu, where: string): string {
  const name = (cell ?? '').trim().toLowerCase()
  if (name === '' || name === whole) return whole
  const profiles = migProfilesOf(gpu)
  const found = profiles.find((profile) =>
    /^\d$/.test(name) ? profile.name.startsWith(`${name}g.`) : profile.name === name,
  )
  if (found === undefined)
    throw new FleetError(
      `${where}: ${gpu.name} has no slice '${name}'`,
      `it has ${[whole, ...profiles.map((profile) => profile.name)].join(', ')}`,
    )
  return found.name
}
