import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { parseReplayTask, replayTaskJsonSchema } from './imports/replay-task-schema.ts'
import { recommendationDocument, recommendationJsonSchema } from './report/recommendation-json.ts'
import { trialColumns } from './report/trials-csv.ts'
import { specTargets } from './specs/index.ts'

const doc = (name: string) => readFileSync(join(dirname(fileURLToPath(import.meta.url)), '..', 'docs', name), 'utf8')

test('every column of trials.csv is documented in its own words', () => {
  const text = doc('recommendation.md')
  for (const { name, what } of trialColumns) expect(text).toContain(`| \`${name}\` | ${what} |`)
})

test('the schema of recommendation.json is the one the program checks by', () => {
  expect(JSON.parse(doc('recommendation.schema.json'))).toEqual(JSON.parse(JSON.stringify(recommendationJsonSchema())))
  const text = doc('recommendation.md')
  const plain = new Set(['schema', 'experimentId', 'slo', 'objective', 'seed', 'trials'])
  for (const field of Object.keys(recommendationDocument.shape)) if (!plain.has(field)) expect(text).toContain(`\`${field}\``)
})

test('the format of a recorded table is documented: its schema, every key, and an example that is one', () => {
  const schema = replayTaskJsonSchema() as { properties: object }
  expect(JSON.parse(doc('replay-task.schema.json'))).toEqual(JSON.parse(JSON.stringify(schema)))
  const text = doc('replay.md')
  for (const key of Object.keys(schema.properties)) expect(text).toContain(`\`${key}\``)
  const [, yaml] = /```yaml\n([\s\S]*?)```/.exec(text)!
  expect(parseReplayTask({ file: 'docs/replay.md', text: yaml! }).parameters).toHaveLength(2)
})

test('every spec target is documented', () => {
  for (const target of specTargets) expect(doc('deploying.md')).toContain(`| \`${target}\` |`)
})
