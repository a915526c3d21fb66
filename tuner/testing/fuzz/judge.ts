/** Reads one input and reports what is wrong with how it was read. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Fuzzed } from './inputs.ts'

const took = 'took'
const maxCpuS = 2
const maxGrownMiB = 300
const maxMessageLength = 200_000

/**
 * Errors that are made for users: their message stands as it is. Any other is the program's own
 * mistake.
 */
const forUsers: ReadonlySet<string> = new Set([
  ...[
    'ConfigError',
    'UserError',
    'UnitError',
    'ConditionError',
    'PriceError',
    'YamlFileError',
    'DeviceModelError',
    'SpecError',
    'DemandError',
    'FleetError',
  ],
  ...[
    'BoundError',
    'PayloadError',
    'ProtocolError',
    'StoreError',
    'TableError',
    'NotHttpError',
    'CommanderError',
  ],
])

/** The fault of how the input is read, undefined if there is none. */
export async function judge(reader: Fuzzed, input: Buffer): Promise<string | undefined> {
  const fault = await judgeOnce(reader, input)
  // The first time may load modules, and other work on the machine slows any.
  return fault?.startsWith(took) ? judgeOnce(reader, input) : fault
}

async function judgeOnce({ read, names }: Fuzzed, input: Buffer): Promise<string | undefined> {
  const folder = mkdtempSync(join(tmpdir(), 'tune-fuzz-'))
  const file = join(folder, 'input')
  writeFileSync(file, input)
  const before = process.memoryUsage().rss
  const started = process.cpuUsage()
  try {
    await read(input, file)
  } catch (error) {
    const wrong = unfit(error, names)
    if (wrong !== undefined) return wrong
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
  const { user, system } = process.cpuUsage(started)
  const seconds = (user + system) / 1e6
  if (seconds > maxCpuS) return `${took} ${seconds.toFixed(1)} s of the processor`
  const grownMiB = (process.memoryUsage().rss - before) / 2 ** 20
  return grownMiB > maxGrownMiB ? `${took} ${Math.round(grownMiB)} MiB` : undefined
}

function unfit(error: unknown, names: RegExp | undefined): string | undefined {
  if (!(error instanceof Error)) return `throws ${String(error)}`
  const name = nameOf(error)
  if (!forUsers.has(name)) return `throws ${name}: ${error.message.slice(0, 200)}`
  const { problems } = error as { problems?: readonly (string | { where: string; what: string })[] }
  const said = problems?.map((one) =>
    typeof one === 'string' ? one : `${one.where}: ${one.what}`,
  ) ?? [error.message]
  if (said.join('\n').length > maxMessageLength) return `says ${said.join('\n').length} characters`
  const nowhere = names && said.find((one) => !names.test(one))
  return nowhere === undefined ? undefined : `does not say where: ${name}: ${nowhere.slice(0, 200)}`
}

/** Of the class, where it gives its errors no name. */
const nameOf = (error: Error): string =>
  error.name === 'Error' ? error.constructor.name : error.name
