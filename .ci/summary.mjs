/**
 * What the tests came to, from the JSON that vitest wrote: node summary.mjs RESULTS STATUS. RESULTS: folder of its files. STATUS: 0 where every
 * command before ended well. Prints the slowest files, each failed test with the beginning of its message, and closes with 'N passed, N failed, N skipped'.
 * Plain JavaScript: it also runs where the installation failed.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { stripVTControlCharacters } from 'node:util'

const slowest = 10
const messageLines = 15
const lineWidth = 200

const [, , folder, status] = process.argv
const results = existsSync(folder) ? readdirSync(folder).map((file) => JSON.parse(readFileSync(join(folder, file), 'utf8'))) : []
const sum = (figure) => results.reduce((total, result) => total + result[figure], 0)
const files = results.flatMap(({ testResults }) => testResults)
const nameOf = ({ name }) => relative(process.cwd(), name)

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

let failed = sum('numFailedTests')
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
// Lint, types or installation.
if (status !== '0' && failed === 0) failed = 1
const passed = sum('numPassedTests')
console.log(`${passed} passed, ${failed} failed, ${sum('numPendingTests')} skipped`)
process.exit(status !== '0' || failed > 0 || passed === 0 ? 1 : 0)
