/** A table of a model's replicas: a row each, with where it ran and what it carried. */
import { findGpu, type Gpu } from '../../trials/devices/catalogue.ts'
import { listMigProfiles } from '../../trials/devices/mig.ts'
import { isUnknown, readNumber, readTable } from '../../trials/table-text.ts'
import { FleetError, type Segment, whole } from './packing.ts'

const columnNames = [
  'gpu',
  'slice',
  'throughputRps',
  'latencyMs',
  'infeasible',
  'gpuSharePercent',
  'memoryMiB',
] as const
type Column = (typeof columnNames)[number]
/** Recorded tables have it; a fleet file has prices of its own. */
const ignoredColumn = 'priceperhour'

const hint =
  'a CSV with columns gpu, slice (1g.10gb, a number of compute slices, or whole), throughputRps, latencyMs; other columns are shown with the row'
const sharedHint =
  'the plan needs both, because neighbours slow a batch down and the memory of all processes must fit on the GPU'

/**
 * @param shown name of the table in messages
 * @param onGpu GPU of rows that name none
 * @param sloMs rows that took longer are left out; absent: none is
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
  const found = new Map<Column, string>()
  for (const column of columnNames) {
    const name = columns.find((each) => plain(each) === column.toLowerCase())
    if (name !== undefined) found.set(column, name)
  }
  const required: readonly Column[] = [
    'throughputRps',
    ...(Number.isFinite(sloMs) ? ['latencyMs' as const] : []),
  ]
  const missing = required.find((column) => !found.has(column))
  if (missing !== undefined) throw new FleetError(`${shown} has no column ${missing}`, hint)
  const known = new Set([...found.values()])
  const others = columns.filter((name) => !known.has(name) && plain(name) !== ignoredColumn)
  return rows.flatMap(({ where, line, cells }): Segment[] => {
    const cell = (column: Column) => cells[found.get(column) ?? '']
    const number = (column: Column): number => {
      const value = readNumber(cell(column))
      if (value > 0) return value
      throw new FleetError(
        `${where}: ${column} is '${cell(column) ?? ''}', not a number above 0`,
        hint,
      )
    }
    if (/^(1|true|yes)$/i.test(cell('infeasible')?.trim() ?? '')) return []
    const rateRps = number('throughputRps')
    if (found.has('latencyMs') && number('latencyMs') > sloMs) return []
    const gpu = resolveGpu(cell('gpu') ?? onGpu, where)
    const values = Object.fromEntries(others.map((name) => [name, cells[name]!]))
    const label = others.map((name) => `${name} ${cells[name]}`).join(', ')
    const row = { gpu: gpu.name, gpus: 1, rateRps, label, row: { line, values } }
    const percent = isUnknown(cell('gpuSharePercent')) ? 100 : number('gpuSharePercent')
    if (percent === 100) return [{ ...row, slice: resolveSlice(cell('slice'), gpu, where) }]
    if (percent > 100)
      throw new FleetError(`${where}: gpuSharePercent is ${percent}, more than a whole GPU`, hint)
    for (const column of ['latencyMs', 'memoryMiB'] as const)
      if (!found.has(column))
        throw new FleetError(`${shown}: rows on shares of a GPU need ${column}`, sharedHint)
    return [
      {
        ...row,
        slice: `${percent}%`,
        share: percent / 100,
        latencyMs: number('latencyMs'),
        limitMs: sloMs,
        memoryMiB: number('memoryMiB'),
      },
    ]
  })
}

function resolveGpu(name: string | undefined, where: string): Gpu {
  if (name === undefined || name.trim() === '')
    throw new FleetError(
      `${where}: the GPU of this measurement is missing`,
      "add a column 'gpu', or gpu: to the model",
    )
  try {
    return findGpu(name.trim())
  } catch (error) {
    throw new FleetError(`${where}: ${(error as Error).message}`, hint)
  }
}

/** '1g.10gb', '2' (compute slices, of the profiles with so many the smallest), 'whole' or nothing. */
function resolveSlice(cell: string | undefined, gpu: Gpu, where: string): string {
  const name = (cell ?? '').trim().toLowerCase()
  if (name === '' || name === whole) return whole
  const profiles = listMigProfiles(gpu)
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
