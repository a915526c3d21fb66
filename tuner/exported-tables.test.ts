/** Tables that people export from other programs, by each command that takes one. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parseTraceDemand } from '../reports/plan/trace-demand.ts'
import { readModelSource } from './cli/commands/fleet/model-source.ts'
import { readRecording } from './cli/commands/replay/replay-inputs.ts'
import { readLengths } from './config/recorded-lengths.ts'
import { readTrace } from './config/trace.ts'
import { readGivenFile } from './given-file.ts'

let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'tables-'))
  writeFileSync(join(folder, 'task.yaml'), task)
})
afterAll(() => rmSync(folder, { recursive: true }))

const task = `parameters: [{name: batch}, {name: gpu}]
price: price
objective: pricePerRequest
rate: rps
constraint: {metric: ms, max: 50}
`

type Cells = readonly (readonly string[])[]
interface Command {
  readonly cells: Cells
  /** The figures of the second column with a fraction, as the command understands them. */
  readonly read: (path: string) => unknown
}

/** The second row of each has a fraction in its second cell: 12.5. */
const commands: Readonly<Record<string, Command>> = {
  'tune plan --trace': {
    cells: [
      ['time', 'rps'],
      ['0', '12.5'],
      ['60', '20'],
    ],
    read: (path) =>
      parseTraceDemand(readGivenFile(path, 'the trace', '--trace', 'table'), 't').spans.map(
        ({ rps }) => rps,
      ),
  },
  'tune fleet': {
    cells: [
      ['gpu', 'throughputRps', 'latencyMs'],
      ['T4', '12.5', '40'],
      ['L4', '20', '30'],
    ],
    read: async (table) =>
      (await readModelSource({ name: 'bert', table, sloMs: 50 } as never, 'none')).segments.map(
        ({ rateRps }) => rateRps,
      ),
  },
  'tune replay --task': {
    cells: [
      ['batch', 'rps', 'gpu', 'ms', 'price'],
      ['1', '12.5', 'T4', '40', '1'],
      ['2', '20', 'T4', '30', '1'],
    ],
    read: (path) =>
      readRecording([path], { task: join(folder, 'task.yaml') }).rows.map(({ rps }) => Number(rps)),
  },
  'tune replay and tune import of perf_analyzer': {
    cells: [
      ['Concurrency', 'Inferences/Second', 'p99 latency'],
      ['1', '12.5', '40000'],
      ['2', '20', '30000'],
    ],
    read: (path) =>
      readRecording([path], { slo: '50ms' }).rows.map(({ ratePerSecond }) => Number(ratePerSecond)),
  },
  'tune --arrivals trace:': {
    cells: [
      ['items', 'ms'],
      ['1', '12.5'],
      ['2', '20'],
    ],
    read: (path) => {
      const { atMs } = readTrace(path, 't')
      return atMs
    },
  },
}

const joined = (cells: Cells, separator = ',', end = '\n') =>
  cells.map((row) => `${row.join(separator)}${end}`).join('')
const quoted = (cells: Cells) => cells.map((row) => row.map((cell) => `"${cell}"`))
const german = (cells: Cells) => cells.map((row) => row.map((cell) => cell.replace('.', ',')))

const exports: Readonly<Record<string, (cells: Cells) => string | Buffer>> = {
  'commas and LF': (cells) => joined(cells),
  'a byte order mark, CRLF and blank lines at the end': (cells) =>
    `\uFEFF${joined(cells, ',', '\r\n')}\r\n\r\n`,
  'tabs in UTF-16 (Excel, Unicode text)': (cells) =>
    Buffer.from(`\uFEFF${joined(cells, '\t', '\r\n')}`, 'utf16le'),
  'big-endian UTF-16': (cells) => Buffer.from(`\uFEFF${joined(cells, '\t')}`, 'utf16le').swap16(),
  'semicolons and decimal commas (Excel in Europe)': (cells) => joined(german(cells), ';', '\r\n'),
  'a line that names the separator': (cells) => `sep=;\r\n${joined(german(cells), ';', '\r\n')}`,
  'every cell in quotes': (cells) => joined(quoted(cells)),
  'emptied rows and columns of a spreadsheet': (cells) =>
    joined([...cells.map((row) => [...row, '', '']), cells[0]!.map(() => '')]),
}

describe.each(Object.entries(commands))('%s reads', (_name, { cells, read }) => {
  test.each(Object.entries(exports))('%s', async (name, written) => {
    // A trace of demand has two columns, and says so of a third.
    const path = join(folder, `${name.replace(/\W/g, '')}.csv`)
    writeFileSync(path, written(cells))
    expect(await read(path)).toEqual([12.5, 20])
  })

  test('no thousands separator: it is refused with its line', async () => {
    const path = join(folder, 'thousands.csv')
    const big = cells.map((row) => row.map((cell) => (cell === '12.5' ? '1.234,5' : cell)))
    writeFileSync(path, joined(big, ';'))
    await expect(async () => read(path)).rejects.toThrow(/:2: .*1\.234,5/)
  })

  test('no quote that is never closed: it is refused with its line', async () => {
    const path = join(folder, 'open.csv')
    writeFileSync(path, `${joined(cells)}"1,2`)
    await expect(async () => read(path)).rejects.toThrow(/:4: a quote is opened and never closed/)
  })
})

test('quoted cells may hold line breaks, and lines are still told rightly', async () => {
  const { read } = commands['tune fleet']!
  const path = join(folder, 'breaks.csv')
  writeFileSync(path, 'gpu,throughputRps,latencyMs,note\nT4,5,40,"one\ntwo"\nT4,none,40,x\n')
  await expect(async () => read(path)).rejects.toThrow(
    /breaks\.csv:4: throughputRps is 'none', not a number above 0/,
  )
  writeFileSync(path, 'batch,gpu,ms,rps,price,note\n1,T4,4,5,1,"one\ntwo"\n1,T4,4,x,1,y\n')
  expect(() => readRecording([path], { task: join(folder, 'task.yaml') })).toThrow(
    /breaks\.csv:4: rps is 'x', not a number/,
  )
})

test.each([
  ['twice', 'two columns are named'],
  ['', 'column 4 has no name'],
])("a column named '%s' is refused by its line", async (name, message) => {
  const path = join(folder, 'names.csv')
  const first = name === '' ? 'note' : name
  writeFileSync(path, `gpu,throughputRps,latencyMs,${name},${first}\nT4,5,40,a,b\n`)
  await expect(async () => commands['tune fleet']!.read(path)).rejects.toThrow(
    `names.csv:1: ${message}`,
  )
  writeFileSync(path, `batch,gpu,rps,${name},${first},ms,price\n1,T4,5,a,b,4,1\n`)
  expect(() => readRecording([path], { task: join(folder, 'task.yaml') })).toThrow(
    `names.csv:1: ${message}`,
  )
})

test.each(['', 'NaN', 'Infinity', 'NA', 'n/a', '-'])(
  "'%s' is a figure that is not known: left out where another counts, refused by name where it is asked for",
  async (unknown) => {
    const path = join(folder, 'unknown.csv')
    writeFileSync(path, `batch,gpu,ms,rps,price\n1,T4,4,5,1\n2,T4,${unknown},6,1\n`)
    const { rows, notes } = readRecording([path], { task: join(folder, 'task.yaml') })
    expect(rows).toHaveLength(1)
    expect(notes).toEqual([expect.stringMatching(/unknown\.csv:3: left out, because it has no ms/)])
    writeFileSync(path, `gpu,throughputRps,latencyMs,memoryMiB\nT4,5,40,${unknown}\n`)
    expect(await commands['tune fleet']!.read(path)).toEqual([5])
    writeFileSync(path, `gpu,throughputRps,latencyMs\nT4,${unknown},40\n`)
    await expect(async () => commands['tune fleet']!.read(path)).rejects.toThrow(
      `unknown.csv:2: throughputRps is '${unknown}', not a number above 0`,
    )
    writeFileSync(path, `inputTokens,outputTokens\n5,${unknown}\n6,7\n`)
    expect(readLengths(path, 't')).toEqual([[6, 7]])
  },
)
