/** `npm run docs`: writes the reference of the experiment file and its JSON Schema into docs/. */
import { readFileSync, writeFileSync } from 'node:fs'
import { experimentJsonSchema } from './experiment-schema.ts'
import { experimentReference } from './reference.ts'

const docs = new URL('../../docs/', import.meta.url)
const page = new URL('experiment-file.md', docs)
const text = readFileSync(page, 'utf8')
const filled = text.replace(
  /(<!-- reference:.*?-->\n)[\s\S]*(<!-- end of reference -->)/,
  (_, start, end) => `${start}${experimentReference()}\n${end}`,
)
writeFileSync(page, filled)
writeFileSync(new URL('experiment.schema.json', docs), `${JSON.stringify(experimentJsonSchema(), null, 2)}\n`)
