import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { hostilePredictors } from './hostile-predictors.ts'
import { eventsOf, finishedTrials, wrongEnd } from './verdicts.ts'

const well = { code: 0, stdout: '', stderr: 'trial 1 of 3\n', peakMiB: 100, outOfTime: false }

describe('how a command ended', () => {
  test('well', () => expect(wrongEnd(well, [0, 3])).toBeUndefined())
  test.each<[string, Partial<typeof well> | { code: undefined }]>([
    ['with another exit code', { code: 1 }],
    ['by a signal', { code: undefined }],
    ['never', { outOfTime: true }],
    ['with too much memory', { peakMiB: 2_000 }],
    ['with a stack trace', { stderr: 'boom\n    at run (file:///tune/run.js:10:5)\n' }],
    [
      'with a stack trace of Node itself',
      {
        stderr:
          "boom\n    at ModuleJob._link (node:internal/modules/esm/module_job:168:49) {\n  code: 'X'\n",
      },
    ],
    ['with the database’s own words', { stderr: 'SQLITE_ERROR: malformed JSON\n' }],
    [
      'with a fault of the program',
      { stderr: "TypeError: Cannot read properties of undefined (reading 'x')\n" },
    ],
  ])('%s is wrong', (_, end) => expect(wrongEnd({ ...well, ...end }, [0, 3])).toBeDefined())
  test('naming the damage in the store’s words is right', () =>
    expect(
      wrongEnd(
        { ...well, stderr: 'tune: damaged (SQLITE_CORRUPT: database disk image is malformed)\n' },
        [0],
      ),
    ).toBeUndefined())
})

test('events are read up to the one that was cut off', () => {
  const ended = {
    ...well,
    stdout:
      '{"type": "trial-finished", "trial": {"number": 1, "state": "complete", "seconds": 1}}\n{"type": "tri',
  }
  expect(eventsOf(ended)).toHaveLength(1)
  expect(finishedTrials(ended)).toEqual([{ number: 1, state: 'complete', seconds: 1 }])
})

test('every kind of hostile predictor is one that its server knows', () => {
  const sources = ['hostile-server.mjs', 'hostile-bytes.mjs', 'hostile-documents.mjs']
  const server = sources
    .map((name) => readFileSync(new URL(`./${name}`, import.meta.url), 'utf8'))
    .join('\n')
  const kinds = Object.keys(hostilePredictors)
  expect(kinds.length).toBeGreaterThanOrEqual(150)
  const isKnown = (kind: string) =>
    server.includes(`'${kind}'`) || new RegExp(`^ *${kind}:`, 'm').test(server)
  expect(
    kinds.map((kind) => kind.replace(/ under load$/, '')).filter((kind) => !isKnown(kind)),
  ).toEqual([])
})
