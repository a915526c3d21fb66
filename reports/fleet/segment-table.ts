/** A table of a model's replicas: a row each, with where it ran and what it carried. */
import { findGpu, type Gpu } from '../../trials/devices/catalogue.ts'
import { listMigProfiles } from '../../trials/devices/mig.ts'
import { isUnknown, readNumber, readTable } from '../../trials/table-text.ts'
import { FleetError, type Segment, wholeGpu } from './packing.ts'

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
/** Column of recorded tables that is ignored: the fleet file has its own prices. */
const ignoredColumn = 'priceperhour'

const hint =
  'a CSV with columns gpu, slice (1g.10gb, a number of compute slices, or whole), throughputRps, latencyMs; other columns are shown with the row'
const sharedHint =
  'the plan needs both, because neighbours slow a batch down and the memory of all processes must fit on the GPU'

/**
 * @param tableName name of the table in messages
 * @param defaultGpu GPU of rows that name none
 * @param sloMs rows that took longer are left out; absent: none is
 * @throws FleetError and TableError that name the line
 */
export function readSegments(
  text: string,
  tableName: string,
  defaultGpu: string | undefined,
  sloMs = Number.POSITIVE_INFINITY,
): Segment[] {
  const { columns, rows } = readTable({ file: tableName, text })
  const normaliseName = (name: string) => name.toLowerCase().replace(/[\s_-]/g, '')
  const presentColumns = new Map<Column, string>()
  for (const column of columnNames) {
    const name = columns.find((each) => normaliseName(each) === column.toLowerCase())
    if (name !== undefined) presentColumns.set(column, name)
  }
  const required: readonly Column[] = [
    'throughputRps',
    ...(Number.isFinite(sloMs) ? ['latencyMs' as const] : []),
  ]
  const missing = required.find((column) => !presentColumns.has(column))
  if (missing !== undefined) throw new FleetError(`${tableName} has no column ${missing}`, hint)
  const knownNames = new Set([...presentColumns.values()])
  const otherColumns = columns.filter(
    (name) => !knownNames.has(name) && normaliseName(name) !== ignoredColumn,
  )
  return rows.flatMap(({ where, line, cells }): Segment[] => {
    const getCell = (column: Column) => cells[presentColumns.get(column) ?? '']
    const readPositive = (column: Column): number => {
      const value = readNumber(getCell(column))
      if (value > 0) return value
      throw new FleetError(
        `${where}: ${column} is '${getCell(column) ?? ''}', not a number above 0`,
        hint,
      )
    }
    if (/^(1|true|yes)$/i.test(getCell('infeasible')?.trim() ?? '')) return []
    const rateRps = readPositive('throughputRps')
    if (presentColumns.has('latencyMs') && readPositive('latencyMs') > sloMs) return []
    const gpu = resolveGpu(getCell('gpu') ?? defaultGpu, where)
    const values = Object.fromEntries(otherColumns.map((name) => [name, cells[name]!]))
    const label = otherColumns.map((name) => `${name} ${cells[name]}`).join(', ')
    const row = { gpu: gpu.name, gpus: 1, rateRps, label, row: { line, values } }
    const percent = isUnknown(getCell('gpuSharePercent')) ? 100 : readPositive('gpuSharePercent')
    if (percent === 100) return [{ ...row, slice: resolveSlice(getCell('slice'), gpu, where) }]
    if (percent > 100)
      throw new FleetError(`${where}: gpuSharePercent is ${percent}, more than a whole GPU`, hint)
    for (const column of ['latencyMs', 'memoryMiB'] as const)
      if (!presentColumns.has(column))
        throw new FleetError(`${tableName}: rows on shares of a GPU need ${column}`, sharedHint)
    return [
      {
        ...row,
        slice: `${percent}%`,
        share: percent / 100,
        latencyMs: readPositive('latencyMs'),
        limitMs: sloMs,
        memoryMiB: readPositive('memoryMiB'),
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
  if (name === '' || name === wholeGpu) return wholeGpu
  const profiles = listMigProfiles(gpu)
  const profile = profiles.find((profile) =>
    /^\d$/.test(name) ? profile.name.startsWith(`${name}g.`) : profile.name === name,
  )
  if (profile === undefined)
    throw new FleetError(
      `${where}: ${gpu.name} has no slice '${name}'`,
      `it has ${[wholeGpu, ...profiles.map((profile) => profile.name)].join(', ')}`,
    )
  return profile.name
}
