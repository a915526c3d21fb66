/**
 * Replicas of a model as a table has them: a row each, with where it ran, what it carried, and how
 * long that took.
 */
import { findGpu, type Gpu } from '../../trials/devices/catalogue.ts'
import { migProfilesOf } from '../../trials/devices/mig.ts'
import { isUnknown, readNumber, readTable } from '../../trials/table-text.ts'
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
 * @throws FleetError and TableError that name the line
 */
export function readSegments(
  text: string,
  shown: string,
  onGpu: string | undefined,
  sloMs = Number.POSITIVE_INFINITY,
): Segment[] {
  const { columns, rows } = readTable({ file: shown, text })
  const plain = (name: string) => name.toLowerCase().replace(/[\s_-]/g, '')
  const at = Object.fromEntries(
    Object.entries(known).map(([column, all]) => [
      column,
      columns.find((name) => (all as readonly string[]).includes(plain(name))),
    ]),
  ) as Record<keyof typeof known, string | undefined>
  if (at.rate === undefined || (Number.isFinite(sloMs) && at.latency === undefined))
    throw new FleetError(
      `${shown} has no column of ${at.rate === undefined ? 'rates' : 'latencies'}`,
      hint,
    )
  const told = columns.filter(
    (name) => !Object.values(at).includes(name) && !unread.includes(plain(name)),
  )
  return rows.flatMap(({ where, line, cells }) => {
    const cell = (column: keyof typeof known) => {
      const name = at[column]
      return name === undefined ? undefined : cells[name]
    }
    const number = (column: 'rate' | 'latency' | 'share' | 'memory'): number => {
      const value = readNumber(cell(column))
      if (value > 0) return value
      throw new FleetError(`${where}: '${cell(column) ?? ''}' is no ${column} above 0`, hint)
    }
    const optional = (column: 'share' | 'memory') =>
      isUnknown(cell(column)) ? undefined : number(column)
    if (isTrue(cell('infeasible'))) return []
    const rateRps = number('rate')
    if (at.latency !== undefined && number('latency') > sloMs) return []
    const gpu = gpuOf(cell('gpu') ?? onGpu, where)
    const values = Object.fromEntries(told.map((name) => [name, cells[name]!]))
    const label = Object.entries(values)
      .map(([name, value]) => `${name} ${value}`)
      .join(', ')
    const memoryMiB = optional('memory')
    const memory = memoryMiB === undefined ? {} : { memoryMiB }
    const row = { gpu: gpu.name, gpus: 1, rateRps, label, ...memory, row: { line, values } }
    const limited =
      at.latency !== undefined && Number.isFinite(sloMs)
        ? { latencyMs: number('latency'), limitMs: sloMs }
        : {}
    const percent = optional('share') ?? 100
    if (percent > 100)
      throw new FleetError(`${where}: '${cell('share')}' is no share of a GPU`, hint)
    if (percent === 100) return [{ ...row, ...limited, slice: sliceOf(cell('slice'), gpu, where) }]
    if (at.latency === undefined || at.memory === undefined)
      throw new FleetError(
        `${shown}: rows on shares of a GPU need ${at.latency === undefined ? 'latencyMs' : 'memoryMiB'}`,
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
