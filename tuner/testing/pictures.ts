/**
 * Makes docs/images/terminal.png and dashboard.png from a stored run. Needs Chromium.
 *
 *     npm start -- --model bert --slo 50ms
 *     npm run pictures -- .tune/tune.db
 */
import { writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import { type Browser, chromium } from 'playwright-core'
import { args, executablePath } from '../../reports/chromium.contract.ts'
import { escapeHtml } from '../../reports/document/html.ts'
import { inspectMachine } from '../../trials/machine/machine-facts.ts'
import { openReader } from '../../trials/store/index.ts'
import { reopenExperiment } from '../cli/commands/reopen-experiment.ts'
import { paint } from '../cli/render/glyphs.ts'
import { formatResult } from '../cli/render/results.ts'
import { formatTrial } from '../cli/render/trial-line.ts'
import { createHostContext } from '../config/host-context.ts'
import { createDashboard } from '../dashboard/dashboard-server.ts'

const columns = 120
const rows = 40
const style = { unicode: true, color: true }

/** CSS of the colours that the terminal's renderer uses, by their ANSI codes. */
const ansiStyles: Readonly<Record<string, string>> = {
  1: 'font-weight: bold; color: #fff',
  2: 'color: #8b949e',
  31: 'color: #ff7b72',
  32: 'color: #3fb950',
  33: 'color: #d29922',
  36: 'color: #39c5cf',
}

const picture = (name: string) =>
  fileURLToPath(new URL(`../../docs/images/${name}.png`, import.meta.url))

/** The last lines of a run, as its terminal shows them. */
async function readTerminal(db: string): Promise<string[]> {
  const { trials, label, pricePerHour, recommendation } = await reopenExperiment(undefined, { db })
  const trialLines = trials.map((trial) => {
    const { configuration } = trial
    const row = {
      trial,
      label: label(configuration),
      pricePerHour: pricePerHour(configuration),
      attempt: 1,
    }
    const { mark, text, paint: tone } = formatTrial(row, style)
    return `${tone ? paint(mark, tone, style) : mark} ${text}`
  })
  return [...trialLines, ...formatResult(recommendation, [], style, columns)].slice(-rows)
}

const ansiCode = new RegExp(`${String.fromCharCode(27)}\\[(\\d+)m`)

function toHtml(lines: readonly string[]): string {
  const parts = lines.join('\n').split(ansiCode)
  // Texts and codes alternate.
  const html = parts.map((part, i) => {
    if (i % 2 === 0) return escapeHtml(part)
    return part === '0' ? '</span>' : `<span style="${ansiStyles[part]}">`
  })
  return `<pre style="display: inline-block; margin: 0; padding: 20px; background: #0d1117; color: #c9d1d9; font: 13px/1.35 'DejaVu Sans Mono', monospace">${html.join('')}</pre>`
}

async function drawTerminal(browser: Browser, db: string): Promise<void> {
  const page = await browser.newPage({ viewport: { width: 1200, height: 900 } })
  await page.setContent(toHtml(await readTerminal(db)))
  writeFileSync(picture('terminal'), await page.locator('pre').screenshot())
}

async function drawDashboard(browser: Browser, db: string): Promise<void> {
  const host = createHostContext(await inspectMachine())
  const { server, close } = await createDashboard(await openReader(db), host)
  try {
    await server.listen({ host: '127.0.0.1', port: 0 })
    const { port } = server.server.address() as AddressInfo
    const page = await browser.newPage({ viewport: { width: 1440, height: 1070 } })
    await page.goto(`http://127.0.0.1:${port}/`)
    await page.waitForSelector('html[data-ready=true]', { state: 'attached' })
    await page.waitForLoadState('networkidle')
    writeFileSync(picture('dashboard'), await page.screenshot())
  } finally {
    await close()
  }
}

const [, , db] = process.argv
if (db === undefined || executablePath === undefined)
  throw new Error('usage: npm run pictures -- STORE.db, with Chromium installed')
const browser = await chromium.launch({ executablePath, args })
try {
  await drawTerminal(browser, db)
  await drawDashboard(browser, db)
} finally {
  await browser.close()
}
