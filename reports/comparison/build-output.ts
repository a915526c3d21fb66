/** Checks as build servers read them: JUnit's XML, GitHub's annotations and its summary. */
import { heading, table } from '../document/blocks.ts'
import { escapeHtml } from '../document/html.ts'
import { toMarkdown } from '../document/markdown.ts'
import type { Check } from './build-checks.ts'

/** JUnit XML of one suite; undecided checks are skipped cases with a reason. */
export function formatJunitXml(suite: string, checks: readonly Check[]): string {
  const count = (state: Check['state']) => checks.filter((check) => check.state === state).length
  const cases = checks.map(({ name, state, message }) => {
    const body = {
      passed: `<system-out>${escapeHtml(message)}</system-out>`,
      failed: `<failure message="${escapeHtml(message)}"/>`,
      undecided: `<skipped message="${escapeHtml(message)}"/>`,
    }[state]
    return `  <testcase classname="${escapeHtml(suite)}" name="${name}">${body}</testcase>`
  })
  const totals = `tests="${checks.length}" failures="${count('failed')}" errors="0" skipped="${count('undecided')}"`
  return `<?xml version="1.0" encoding="UTF-8"?>\n<testsuite name="${escapeHtml(suite)}" ${totals}>\n${cases.join('\n')}\n</testsuite>\n`
}

const levels = { passed: 'notice', failed: 'error', undecided: 'warning' } as const
const escapeProperty = (text: string) =>
  text.replaceAll('%', '%25').replaceAll('\r', '%0D').replaceAll('\n', '%0A')

/**
 * GitHub's workflow commands, a line each (its documentation: "Workflow commands for GitHub
 * Actions").
 */
export const formatAnnotations = (suite: string, checks: readonly Check[]): string[] =>
  checks.map(({ name, state, message }) => {
    const title = escapeProperty(`tune ${suite}: ${name}`)
      .replaceAll(':', '%3A')
      .replaceAll(',', '%2C')
    return `::${levels[state]} title=${title}::${escapeProperty(message)}`
  })

/** Markdown for GitHub's step summary. */
export const formatSummary = (suite: string, checks: readonly Check[]): string =>
  toMarkdown([
    heading(3, `tune ${suite}`),
    ...table(
      ['check', '', ''],
      checks.map(({ name, state, message }) => [name, state, message]),
    ),
  ])
