import { describe, expect, test } from 'vitest'
import { createRecordedTable } from '../../search/replay/table.ts'
import type { TableError } from '../../trials/table-text.ts'
import { readOwnTable } from './own-table.ts'
import { parseReplayTask } from './replay-task-schema.ts'

const task = (changes: object = {}) =>
  parseReplayTask({
    file: 'task.yaml',
    text: JSON.stringify({
      parameters: [{ name: 'batch' }, { name: 'gpu' }],
      price: 'price',
      objective: 'pricePerRequest',
      rate: 'rps',
      constraint: { metric: 'ms', max: 50 },
      ...changes,
    }),
  })
const header = 'batch,gpu,ms,rps,price'
const read = (text: string, changes: object = {}) =>
  readOwnTable(task(changes), { file: 'runs.csv', text })
const rowsOf = (...rows: string[]) => `${header}\n${rows.join('\n')}\n`

describe('a table that a stranger brings', () => {
  test('has its kinds and values from the rows, and known GPUs their datasheet', () => {
    const {
      task: found,
      rows,
      notes,
    } = read(rowsOf('4,T4,40,90,0.35', '1,L4,10,50,0.7', '0.5,T4,20,30,0.35'))
    expect(found.parameters).toMatchObject([
      { name: 'batch', kind: 'ordinal', values: [0.5, 1, 4] },
      {
        name: 'gpu',
        kind: 'categorical',
        values: ['T4', 'L4'],
        features: { T4: [expect.any(Number), expect.any(Number)] },
      },
    ])
    expect(notes).toEqual([])
    expect(createRecordedTable(found, rows).configurations).toEqual([
      { batch: 0.5, gpu: 'T4' },
      { batch: 1, gpu: 'L4' },
      { batch: 4, gpu: 'T4' },
    ])
  })

  test('a column of numbers and words is one of names', () => {
    expect(read(rowsOf('auto,T4,40,90,0.35', '1,T4,10,50,0.7')).task.parameters[0]).toEqual({
      name: 'batch',
      kind: 'categorical',
      values: ['auto', '1'],
    })
  })

  test.each([
    [
      'a byte order mark and CRLF',
      `\uFEFF${rowsOf('1,T4,40,90,0.35', '2,T4,20,80,0.35').replaceAll('\n', '\r\n')}`,
    ],
    ['semicolons', rowsOf('1,T4,40,90,0.35', '2,T4,20,80,0.35').replaceAll(',', ';')],
    ['tabs', rowsOf('1,T4,40,90,0.35', '2,T4,20,80,0.35').replaceAll(',', '\t')],
    ['spaces and quotes', rowsOf(' 1 ,"T4", 40,90,0.35', '2,T4,20,80, 0.35')],
    ['bars', rowsOf('1,T4,40,90,0.35', '2,T4,20,80,0.35').replaceAll(',', '|')],
    ['line ends of CR alone', rowsOf('1,T4,40,90,0.35', '2,T4,20,80,0.35').replaceAll('\n', '\r')],
    [
      "Excel's line that says what parts the columns",
      `sep=;\r\n${rowsOf('1,T4,40,90,0.35', '2,T4,20,80,0.35').replaceAll(',', ';')}`,
    ],
    ['emptied cells of a spreadsheet', `${rowsOf('1,T4,40,90,0.35,,', '2,T4,20,80,0.35')},,,,\n`],
    ['no end of its last line', rowsOf('1,T4,40,90,0.35', '2,T4,20,80,0.35').trimEnd()],
  ])('%s', (_what, text) => {
    expect(read(text).rows).toMatchObject([{ batch: '1', gpu: 'T4', ms: '40' }, { batch: '2' }])
  })

  test('decimal commas are read where no comma parts the columns, and that is told', () => {
    const semicolons = (...rows: string[]) => `${header.replaceAll(',', ';')}\n${rows.join('\n')}\n`
    const { task: found, rows, notes } = read(semicolons('1;T4;40;90;0,35', '2;T4;20,5;1,5e3;0,35'))
    expect(rows).toMatchObject([
      { ms: '40', price: '0.35' },
      { ms: '20.5', rps: '1.5e3' },
    ])
    expect(notes).toEqual(['runs.csv: commas are read as decimal points: 0,35 means 0.35'])
    expect(read(semicolons('0,5;T4;40;90;1', '1;T4;40;90;1')).task.parameters[0]).toMatchObject({
      kind: 'ordinal',
      values: [0.5, 1],
    })
    expect(found.parameters[1]).toMatchObject({ values: ['T4'] })
    // Of thousands, beside points, or where commas part the columns, nobody knows.
    expect(() => read(semicolons('1;T4;40;1,500;1'))).toThrow("rps is '1,500', not a number")
    expect(() => read(semicolons('1;T4;40;90;1,5', '2;T4;40;90;1.5'))).toThrow(
      "price is '1,5', not a number",
    )
    expect(() => read(rowsOf('1,T4,"40,5",90,1'))).toThrow("ms is '40,5', not a number")
  })

  test('names that are numbers with a unit are told', () => {
    const { task: found, notes } = read(rowsOf('16GB,T4,40,90,0.35', '32GB,T4,20,80,0.35'))
    expect(found.parameters[0]).toMatchObject({ kind: 'categorical', values: ['16GB', '32GB'] })
    expect(notes).toEqual([
      expect.stringMatching(
        /^runs\.csv: batch has text values \(16GB, 32GB\): write numbers without a unit/,
      ),
    ])
    expect(read(rowsOf('fp16,T4,40,90,0.35', 'int8,T4,20,80,0.35')).notes).toEqual([])
  })

  test('an empty value is one where the task lists it', () => {
    const rows = rowsOf(',T4,40,90,0.35', 'fast,T4,20,80,0.35')
    expect(() => read(rows)).toThrow('runs.csv:2: batch is empty: each row needs a value')
    expect(
      read(rows, { parameters: [{ name: 'batch', values: ['', 'fast'] }] }).task.parameters[0],
    ).toMatchObject({ values: ['', 'fast'] })
  })

  test('one price for all rows needs no column; columns that nothing names are told', () => {
    const {
      rows,
      task: found,
      notes,
    } = read('batch,gpu,ms,rps,host\n1,T4,40,90,a\n', { price: 0.5 })
    expect(rows[0]![found.price]).toBe(0.5)
    expect(notes).toEqual(['runs.csv: columns that the task does not mention: host'])
  })

  test('rows without a reading are left out and told, those marked as infeasible kept', () => {
    const { rows, notes } = read(rowsOf('1,T4,40,90,0.35', '2,T4,,,0.35', '4,T4,20,,0.35'))
    expect(rows).toHaveLength(1)
    expect(notes).toEqual([
      expect.stringMatching(/^runs\.csv:3: left out, because it has no ms and no rps/),
      expect.stringMatching(/^runs\.csv:4: left out, because it has no rps/),
    ])
    const marked = read(
      'batch,gpu,ms,rps,price,oom\n1,T4,40,90,0.35,no\n2,T4,,,0.35,yes\n4,T4,,,0.35,1.0\n',
      { infeasibleColumn: 'oom' },
    )
    expect(marked.rows).toHaveLength(3)
    expect(marked.notes).toEqual([])
  })

  test('noisy repeats are averaged and told', () => {
    const { rows, notes } = read(rowsOf('1,T4,40,90,0.35', '2,T4,20,80,0.35', '1.0,T4,42,94,0.35'))
    expect(rows).toMatchObject([{ ms: 41, rps: 92 }, { ms: '20' }])
    expect(notes).toEqual([
      expect.stringContaining('averaged, for example runs.csv:2 and runs.csv:4'),
    ])
  })

  test.each([
    [
      'readings',
      ['1,T4,40,90,0.35', '1,T4,400,30,0.35'],
      /runs\.csv:2 and runs\.csv:3 contradict.*ms is 40 and 400 and rps is 30 and 90/,
      { ms: 400, rps: 30 },
    ],
    ['prices', ['1,T4,40,90,0.35', '1,T4,40,90,0.7'], /price is 0.35 and 0.7/, { price: 0.7 }],
  ])(
    'repeats that contradict each other in their %s: both lines are told, and the worse counts',
    (_what, rows, told, worse) => {
      const { rows: found, notes } = read(rowsOf(...rows))
      expect(notes).toEqual([expect.stringMatching(told)])
      expect(found).toMatchObject([worse])
    },
  )

  test('served once and not the other time counts as not served', () => {
    const text = 'batch,gpu,ms,rps,price,oom\n1,T4,40,90,0.35,0\n1,T4,,,0.35,1\n'
    const { rows, notes } = read(text, { infeasibleColumn: 'oom' })
    expect(rows).toMatchObject([{ oom: '1' }])
    expect(notes).toEqual([expect.stringMatching(/served and could not serve/)])
  })

  test('how far repeats may differ is what the task says of the noise', () => {
    const rows = ['1,T4,40,90,0.35', '1,T4,50,90,0.35']
    expect(read(rowsOf(...rows)).notes).toEqual([expect.stringContaining('averaged')])
    expect(read(rowsOf(...rows), { relativeNoise: 0.01 }).notes).toEqual([
      expect.stringContaining('contradict'),
    ])
    // Beside the limit of 50 a tenth of it is nothing, however far apart as a ratio.
    expect(
      read(rowsOf('1,T4,0.1,90,0.35', '1,T4,4,90,0.35'), { relativeNoise: 0.01 }).notes,
    ).toEqual([expect.stringContaining('averaged')])
  })

  test('fifty thousand rows are read', () => {
    const rows = Array.from(
      { length: 50_000 },
      (_, i) => `${i % 500},T4-${Math.floor(i / 500)},${10 + (i % 37)},${50 + (i % 91)},0.35`,
    )
    expect(read(rowsOf(...rows)).rows).toHaveLength(50_000)
  })
})

describe('what is wrong is told with its line, all at once', () => {
  test.each<[string, string, RegExp[]]>([
    ['an empty file', '', [/^runs\.csv: the file is empty/]],
    ['a header alone', `${header}\n`, [/^runs\.csv:1: column names without rows/]],
    [
      'a column that is missing',
      'batch,gpu,ms,rps\n1,T4,1,1\n',
      [/^runs\.csv: no column 'price' \(it has batch, gpu, ms, rps\)$/],
    ],
    [
      'a column that is there twice',
      `${header},ms\n1,T4,1,1,1,1\n`,
      [/^runs\.csv:1: two columns are named 'ms'$/],
    ],
    [
      'short and long rows',
      rowsOf('1,T4', '1,T4,1,1,1,1'),
      [/^runs\.csv:2: 2 cells under 5 columns$/, /^runs\.csv:3: 6 cells/],
    ],
    [
      'a short row beside others',
      rowsOf('1,T4', '2,T4,fast,1,1', '4,T4,1,1,0'),
      [/^runs\.csv:2: 2 cells under 5 columns$/, /:3: ms is 'fast'/, /:4: price is 0/],
    ],
    [
      'a quote that is left open',
      rowsOf('1,"T4,1,1,1'),
      [/^runs\.csv:2: a quote is opened and never closed$/],
    ],
    [
      'prices',
      rowsOf('1,T4,1,1,0', '2,T4,1,1,-1', '3,T4,1,1,NaN', '4,T4,1,1,', '5,T4,1,1,Infinity'),
      [
        /:2: price is 0: a price per hour is above 0$/,
        /:3: price is -1/,
        /:4: price is 'NaN', not a number$/,
        /:5: price is '', not a number$/,
        /:6: price is 'Infinity', not a number$/,
      ],
    ],
    [
      'readings',
      rowsOf('1,T4,-1,1,1', '2,T4,1,0,1', '3,T4,fast,1,1', '4,T4,1,-3,1'),
      [
        /:2: ms is -1: a constrained metric is not negative$/,
        /:3: rps is 0: a rate is above 0/,
        /:4: ms is 'fast', not a number$/,
        /:5: rps is -3/,
      ],
    ],
    [
      'slips among the numbers of a parameter',
      rowsOf(
        '1,T4,1,1,1',
        '2,T4,1,1,1',
        'NaN,T4,1,1,1',
        '4 x,T4,1,1,1',
        '8,T4,1,1,1',
        '0x10,T4,1,1,1',
        '16,T4,1,1,1',
      ),
      [
        /:4: batch is 'NaN', but most of its values are numbers$/,
        /:5: batch is '4 x'/,
        /:7: batch is '0x10'/,
      ],
    ],
    [
      'parameters without a value',
      rowsOf('1,T4,1,1,1', ',T4,1,1,1', '4,,1,1,1'),
      [/:3: batch is empty/, /:4: gpu is empty/],
    ],
    [
      'figures of which no cost can be made',
      rowsOf('1,T4,1,1e-300,1e300', '1e99,T4,1e200,1,1', '3,T4,0x10,1,1'),
      [
        /:2: price is 1e300: values lie between/,
        /:2: rps is 1e-300/,
        /:3: batch is 1e99/,
        /:3: ms is 1e200/,
        /:4: ms is '0x10', not a number$/,
      ],
    ],
    [
      'no readings at all',
      rowsOf('1,T4,,,1', '2,T4,,,1'),
      [/^runs\.csv: no row has a value of ms and rps$/],
    ],
  ])('%s', (_what, text, told) => {
    let message = ''
    try {
      read(text)
    } catch (error) {
      message = (error as Error).message
    }
    expect(message.split('\n')).toEqual(told.map((line) => expect.stringMatching(line)))
  })

  test('a line before the names of the columns is named', () => {
    const problems = (text: string) => {
      try {
        return read(text)
      } catch (error) {
        return (error as TableError).problems
      }
    }
    expect(problems(`# of Tuesday\n${rowsOf('1,T4,1,1,1')}`)).toEqual([
      {
        where: 'runs.csv:2',
        what: '5 cells under 1 column',
        hint: 'line 1 is read as the column names: # of Tuesday',
      },
      { where: 'runs.csv:3', what: '5 cells under 1 column' },
    ])
  })

  test('a mark that says neither is no missing reading', () => {
    const text = 'batch,gpu,ms,rps,price,oom\n1,T4,40,90,0.35,no\n2,T4,,,0.35,ja\n'
    expect(() => read(text, { infeasibleColumn: 'oom' })).toThrow(
      "runs.csv:3: oom is 'ja', neither 0 nor 1",
    )
  })

  test.each([
    ['ms', {}, 'ms is a parameter, and measured'],
    ['rps', {}, 'rps is a parameter, and measured'],
    ['oom', { infeasibleColumn: 'oom' }, 'oom is a parameter, and the infeasibleColumn'],
  ])('what is measured is no parameter: %s', (name, changes, told) => {
    const text = 'batch,gpu,ms,rps,price,oom\n1,T4,40,90,0.35,0\n'
    expect(() => read(text, { ...changes, parameters: [{ name: 'batch' }, { name }] })).toThrow(
      told,
    )
  })

  test('a value that the task does not list', () => {
    expect(() =>
      read(rowsOf('1,T4,1,1,1', '3,T4,1,1,1'), { parameters: [{ name: 'batch', values: [1, 2] }] }),
    ).toThrow("runs.csv:3: batch is '3', none of the task's values 1, 2")
    expect(() =>
      read(rowsOf('x,T4,1,1,1'), { parameters: [{ name: 'batch', kind: 'ordinal' }] }),
    ).toThrow("batch is 'x', not a number")
  })

  test('identifiers are no parameters; features belong to every name', () => {
    const rows = Array.from({ length: 501 }, (_, i) => `1,id${i},1,1,1`)
    expect(() => read(rowsOf(...rows))).toThrow(/gpu has 501 values/)
    expect(() =>
      read(rowsOf('1,a,1,1,1', '1,b,1,1,1'), {
        parameters: [{ name: 'gpu', features: { a: [1] } }],
      }),
    ).toThrow('no features for b')
  })
})

describe('the task', () => {
  test.each<[object, RegExp]>([
    [{ pirce: 'x' }, /task\.yaml:1: unknown key 'pirce', did you mean price\?/],
    [{ constraint: { metric: 'ms', max: 50, min: 1 } }, /constraint: unknown key 'min'/],
    [{ constraint: { metric: 'ms', max: 0 } }, /constraint\.max: expected a limit above 0, got 0/],
    [
      { constraint: { metric: 'ms', max: '50ms' } },
      /constraint\.max: expected a limit above 0, got "50ms"/,
    ],
    [{ price: 0 }, /price: /],
    [{ price: undefined }, /price: /],
    [{ objective: 'speed' }, /objective: expected price or pricePerRequest/],
    [{ parameters: [] }, /parameters: /],
    [
      { parameters: [{ name: 'a' }, { name: 'a' }] },
      /a parameter of that name already exists above/,
    ],
    [{ parameters: [{ name: 'a', values: [1, 1] }] }, /lists a value twice/],
    [
      { parameters: [{ name: 'a', kind: 'ordinal', values: [1, 'x'] }] },
      /values of an ordinal parameter must be numbers/,
    ],
    [{ parameters: [{ name: 'a', kinds: 'ordinal' }] }, /parameters\.0: unknown key 'kinds'/],
    [{ relativeNoise: -1 }, /relativeNoise/],
  ])('%j is refused by name', (changes, message) => {
    expect(() => task(changes)).toThrow(message)
  })
})
