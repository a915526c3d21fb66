/** `npm run calibrate`: fits the device model to the tables and writes coefficients.json. */
import { writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { crossValidate } from './cross-validation.ts'
import { fitCoefficients } from './fit-coefficients.ts'
import { readHeldOutLatencies, readPublishedTables } from './published-tables.ts'

const tables = readPublishedTables()
const coefficients = fitCoefficients(
  tables,
  crossValidate(tables, readHeldOutLatencies('resnet50-tensorrt.csv')),
)
const file = fileURLToPath(new URL('../coefficients.json', import.meta.url))
const rounded = JSON.stringify(
  coefficients,
  (_, value) => (typeof value === 'number' ? Number(value.toPrecision(6)) : value),
  1,
)
writeFileSync(file, `${rounded}\n`)
console.log(
  `${tables.latency.length} latencies, ${tables.share.length} shares, ${tables.memory.length} memory figures → ${file}`,
)
for (const [reason, rows] of tables.skipped)
  console.log(`skipped ${rows} rows: ${reason.split(';')[0]}`)
console.log(
  coefficients.physics,
  coefficients.errors,
  coefficients.runtimes,
  coefficients.shareCurves,
  coefficients.memory,
)
