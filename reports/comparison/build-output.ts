/** Checks as build servers read them: JUnit's XML, GitHub's annotations and its summary. */
import { escapeHtml } from '../report/document/html.ts'
import type { Check } from './build-checks.ts'

/** JUnit XML of one suite; what is undecided is a skipped case, with why. */
export function junitXml(suite: string, checks: readonly Check[]): string {
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
const escaped = (text: string) => text.replaceAll('%', '%25').replaceAll('\r', '%0D').replaceAll('\n', '%0A')

/** GitHub's workflow commands, a line each (its documentation: "Workflow commands for GitHub Actions"). */
export const annotations = (suite: string, checks: readonly Check[]): string[] =>
  checks.map(({ name, state, message }) => {
    const title = escaped(`tune ${suite}: ${name}`).replaceAll(':', '%3A').replaceAll(',', '%2C')
    return `::${levels[state]} title=${title}::${escaped(message)}`
  })

const cell = (text: string) => text.replace(/[\\|<>`*_]/g, '\\$&').replace(/\s+/g, ' ')

/** Markdown for GitHub's step summary. */
export const summaryMarkdown = (suite: string, checks: readonly Check[]): string =>
  `### tune ${cell(suite)}\n\n| check | | |\n|---|---|---|\n${checks.map(({ name, state, message }) => `| ${name} | ${state} | ${cell(message)} |`).join('\n')}\n`
