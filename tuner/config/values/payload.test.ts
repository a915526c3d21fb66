import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { readTrace } from '../trace.ts'
import { detectPayloadKind, formatItems, parseItems } from './payload.ts'

const folder = mkdtempSync(join(tmpdir(), 'payload-'))
afterAll(() => rmSync(folder, { recursive: true }))
const write = (name: string, text: string) => {
  const path = join(folder, name)
  writeFileSync(path, text)
  return path
}

describe('numbers of items', () => {
  test.each([
    [8, { kind: 'fixed', items: 8 }, '8'],
    ['1..16', { kind: 'uniform', from: 1, to: 16 }, '1..16'],
    ['1, 2,4', { kind: 'weighted', items: [1, 2, 4], weights: [1, 1, 1] }, '1:1, 2:1, 4:1'],
    [
      '1:70%, 8:20, 32:0.5',
      { kind: 'weighted', items: [1, 8, 32], weights: [70, 20, 0.5] },
      '1:70, 8:20, 32:0.5',
    ],
    ['lognormal:4,0.6', { kind: 'lognormal', median: 4, sigma: 0.6 }, 'lognormal:4,0.6'],
  ])('%s', (text, counts, written) => {
    expect(parseItems(text)).toEqual(counts)
    expect(formatItems(parseItems(text))).toBe(written)
    expect(parseItems(written)).toEqual(counts)
  })
  test.each([
    '',
    '0',
    '-1',
    '1.5',
    '4..2',
    '1:',
    '1:0',
    '1:2:3',
    '5000',
    'lognormal:0,1',
    'normal:1,2',
  ])("'%s' is none", (text) => {
    expect(() => parseItems(text)).toThrow(`'${text}' is not a number of items`)
  })
})

describe('traces', () => {
  test('times alone, with or without a header; other columns mean nothing without one', () => {
    expect(readTrace(write('a.csv', '0\n10, 7\n\n20\n'), 'a.csv').atMs).toEqual([0, 10, 20])
    expect(readTrace(write('a.csv', 'time_ms\n0\n10.5\n'), 'a.csv').atMs).toEqual([0, 10.5])
  })
  test('items and bodies by their columns', () => {
    const order = { file: join(folder, 'a.csv'), lines: [2, 4], items: [1, 8], bodies: [3, 0] }
    expect(readTrace(write('a.csv', 'body;ms;size\n3;0;1\n\n0;5;8\n'), 'a.csv')).toEqual({
      atMs: [0, 5],
      readAs: 'ms (by its header)',
      order,
    })
  })
  test.each([
    ['ms,items\n0,1\nx,1\n', "a.csv:3: 'x' is not a time"],
    ['ms,items\n0,1\n1,0\n', "a.csv:3: '0' is not a number of items, from 1"],
    ['ms,body\n0,1\n1\n', "a.csv:3: '' is not a number of a body, from 0"],
    ['5\n4\n', "a.csv:2: '4' is before the line above"],
    ['ms\n5\n', 'the trace a.csv has 1 arrivals'],
  ])('%j names its line', (text, message) => {
    expect(() => readTrace(write('a.csv', text), 'a.csv')).toThrow(message)
  })
})

test('a payload is what its path holds', () => {
  expect(detectPayloadKind(write('bodies.jsonl', '{}'))).toBe('file')
  expect(detectPayloadKind(write('texts.TXT', 'a'))).toBe('texts')
  expect(() => detectPayloadKind(folder)).toThrow('contains no images')
  write('x.jpeg', 'x')
  expect(detectPayloadKind(folder)).toBe('images')
  expect(() => detectPayloadKind(write('empty.jsonl', ''))).toThrow('is empty')
  expect(() => detectPayloadKind(join(folder, 'none'))).toThrow('no payload file')
})
