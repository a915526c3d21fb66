/**
 * What the tests came to, from the JSON that vitest wrote: node summary.mjs RESULTS STATUS.
 * RESULTS: folder of its files. STATUS: 0 where every command before ended well; failed-files
 * prints the names of the test files that failed, and no more. Prints the slowest files, each
 * failed test with the beginning of its message, and closes with 'N passed, N failed, N skipped'.
 * Plain JavaScript: it also runs where the installation failed.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { stripVTControlCharacters } from 'node:util'

const slowest = 10
const messageLines = 15
const lineWidth = 200

const [, , folder, status] = process.argv
/** What came of a second look (see run), where there was one. */
const again = 'again.json'
const read = (file) => (existsSync(join(folder, file)) ? JSON.parse(readFileSync(join(folder, file), 'utf8')).testResults : [])
const looked = read(again)
const first = existsSync(folder)
  ? readdirSync(folder)
      .filter((file) => file !== again)
      .flatMap(read)
  : []
const files = [...first.filter(({ name }) => looked.every((other) => other.name !== name)), ...looked]
const count = (...states) =>
  files.reduce((total, { assertionResults }) => total + assertionResults.filter((test) => states.includes(test.status)).length, 0)
const nameOf = ({ name }) => relative(process.cwd(), name)

if (status === 'failed-files') {
  for (const file of first) if (file.status === 'failed') console.log(nameOf(file))
  process.exit(0)
}

const cut = (line) => (line.length > lineWidth ? `${line.slice(0, lineWidth)}…` : line)
/** The beginning of a message, each line to a sane width; where it was cut is said. */
function beginning(message) {
  const lines = stripVTControlCharacters(message)
    .split('\n')
    .filter((line) => line.trim() !== '')
  const rest = lines.length - messageLines
  return [...lines.slice(0, messageLines).map(cut), ...(rest > 0 ? [`… and ${rest} more lines`] : [])].map((line) => `    ${line}`)
}

const secondsOf = ({ startTime, endTime }) => (endTime - startTime) / 1000
const bySeconds = [...files].sort((a, b) => secondsOf(b) - secondsOf(a)).slice(0, slowest)
if (bySeconds.length > 0) console.log('slowest files:')
for (const file of bySeconds) console.log(`${secondsOf(file).toFixed(1).padStart(7)} s  ${nameOf(file)}`)

for (const { name, status: now } of looked)
  for (const test of first.find((file) => file.name === name).assertionResults)
    if (test.status === 'failed' && now === 'passed') console.log(`failed at first, passed alone: ${nameOf({ name })} > ${test.fullName}`)

let failed = count('failed')
for (const file of files) {
  const failures = file.assertionResults.filter((test) => test.status === 'failed')
  for (const { fullName, failureMessages = [] } of failures) {
    console.log(`FAILED ${nameOf(file)} > ${fullName}`)
    for (const line of failureMessages.flatMap(beginning)) console.log(line)
  }
  // It did not come to its tests.
  if (file.status === 'failed' && failures.length === 0) {
    failed += 1
    console.log(`FAILED ${nameOf(file)}`)
    for (const line of beginning(file.message ?? '')) console.log(line)
  }
}
if (status !== '0' && failed === 0) {
  failed = 1
  console.log('no test failed: lint, types, installation, or an "Unhandled" error outside of a test, see above')
}
const passed = count('passed')
console.log(`${passed} passed, ${failed} failed, ${count('pending', 'skipped', 'todo')} skipped`)
process.exit(status !== '0' || failed > 0 || passed === 0 ? 1 : 0)
