import { describe, expect, test } from 'vitest'
import { isUnknown, readNumber, readRows, readTable, TableError } from './table-text.ts'

const rows = (text: string) => readRows({ file: 't.csv', text }).rows.map(({ cells }) => cells)
const table = (text: string) => readTable({ file: 't.csv', text })
const problem = (read: () => unknown): string => {
  try {
    read()
  } catch (error) {
    if (error instanceof TableError) return error.message
    throw error
  }
  return 'it was read'
}

describe('rows', () => {
  test.each([
    ['commas', 'a,b\n1,2\n'],
    ['semicolons', 'a;b\n1;2\n'],
    ['tabs', 'a\tb\n1\t2\n'],
    ['bars', 'a|b\n1|2\n'],
    ['CRLF', 'a,b\r\n1,2\r\n'],
    ['CR alone', 'a,b\r1,2\r'],
    ['a byte order mark', '\uFEFFa,b\n1,2'],
    ['quotes and spaces', '"a" , b\n 1, "2"\n'],
    ['blank lines and emptied cells', '\na,b\n\n1,2\n,\n  \n\n'],
    ['the line of Excel that names the separator', 'sep=;\r\na;b\r\n1;2\r\n'],
  ])('%s', (_what, text) => {
    expect(rows(text)).toEqual([
      ['a', 'b'],
      ['1', '2'],
    ])
  })

  test('have the line where they begin, whatever their quoted cells hold', () => {
    const text = 'sep=,\na,b\r\n"x\r\ny",1\n\n"z ""q""\n",2\n3,4\n'
    expect(readRows({ file: 't.csv', text }).rows).toEqual([
      { line: 2, where: 't.csv:2', cells: ['a', 'b'] },
      { line: 3, where: 't.csv:3', cells: ['x\r\ny', '1'] },
      { line: 6, where: 't.csv:6', cells: ['z "q"\n', '2'] },
      { line: 8, where: 't.csv:8', cells: ['3', '4'] },
    ])
  })

  test('a decimal comma separates no columns', () => {
    expect(rows('0,5;12,5\n1,5;13,5\n')).toEqual([
      ['0.5', '12.5'],
      ['1.5', '13.5'],
    ])
  })

  test.each([
    ['is never closed', 'a,b\n"x\ny",1\n2,"3\n4,5\n', /^t\.csv:4: a quote is opened and never/],
    ['closes within a cell', 'a,b\n1,"x"y\n', /^t\.csv:2: a quoted cell continues after/],
    ['takes in the file', `a,b\n1,"${'x'.repeat(2 ** 21)}`, /^t\.csv:2: a row of more than 1 MiB/],
  ])('a quote that %s is told with the line of its row', (_what, text, message) => {
    expect(problem(() => rows(text))).toMatch(message)
  })
})

describe('numbers', () => {
  test('decimal commas are points where no comma separates columns, with a note', () => {
    const read = table('a;b\n0,5;x,y\n1;2\n')
    expect(read.rows.map(({ cells }) => cells)).toEqual([
      { a: '0.5', b: 'x,y' },
      { a: '1', b: '2' },
    ])
    expect(read.notes).toEqual(['t.csv: commas are read as decimal points: 0,5 means 0.5'])
  })

  test.each([
    ['of thousands', 'a;b\n1,500;2\n'],
    ['beside points', 'a;b\n1,5;2.5\n'],
    ['where commas separate columns', 'a,b\n"1,5",2\n'],
  ])('a comma %s makes no number', (_what, text) => {
    const { rows: read, notes } = table(text)
    expect(readNumber(read[0]!.cells.a)).toBeNaN()
    expect(notes).toEqual([])
  })

  test('points that may separate thousands are read as decimal ones, with a note', () => {
    expect(table('a;b\n1.500;2\n').notes).toEqual([
      't.csv: points are read as decimal points: 1.500 means 1.5',
    ])
    expect(table('a;b\n1.500;2.25\n').notes).toEqual([])
  })

  test.each(['', '-', 'NaN', 'nan', 'Infinity', '-inf', 'NA', 'n/a', 'N/A', 'null'])(
    "'%s' is not known",
    (cell) => {
      expect(isUnknown(cell)).toBe(true)
      expect(readNumber(cell)).toBeNaN()
    },
  )

  test.each(['1 234', "1'234", '1.234,5', '0x10', '12ms', '1e999'])("'%s' is no number", (cell) => {
    expect(isUnknown(cell)).toBe(false)
    expect(readNumber(cell)).toBeNaN()
  })

  test('others are decimal', () => {
    expect(['1', '-2.5', '.5', '3.', '1e3', '0'].map(readNumber)).toEqual([
      1, -2.5, 0.5, 3, 1000, 0,
    ])
  })
})

describe('names of columns', () => {
  test.each([
    ['stands twice', 'a,b,a\n1,2,3\n', "t.csv:1: two columns are named 'a'"],
    ['is missing', 'a,,b\n1,2,3\n', 't.csv:1: column 2 has no name'],
    ['is missing at the end', 'a,b,\n1,2,3\n', 't.csv:2: 3 cells under 2 columns'],
    ['is all there is', '\n\na,b\n\n', 't.csv:3: column names without rows'],
    ['and rows are missing', '\n', 't.csv: the file is empty'],
  ])('one that %s is refused with its line', (_what, text, message) => {
    expect(problem(() => table(text))).toBe(message)
  })

  test('the index of pandas and columns that hold nothing need none', () => {
    expect(table(',a,,b,\n0,1,,2,\n1,3,,4,\n')).toMatchObject({
      columns: ['a', 'b'],
      rows: [{ cells: { a: '1', b: '2' } }, { cells: { a: '3', b: '4' } }],
    })
  })
})
