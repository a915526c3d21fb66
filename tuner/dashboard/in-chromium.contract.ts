/** Chromium with the dashboard of a sample store open in it, for the tests of the page. */
import { mkdtempSync, rmSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Browser, chromium, type Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect } from 'vitest'
import { args, executablePath } from '../../reports/chromium.contract.ts'
import { openReader } from '../../trials/store/index.ts'
import { createDashboard, type DashboardServer } from './dashboard-server.ts'
import { hostContext, type SampleStore, sampleStore } from './samples.contract.ts'

const token = 'token-of-the-tests'

/** What a test of the page has: `page` is new for each test, with the newest experiment open. */
export interface InChromium {
  readonly page: Page
  readonly base: string
  readonly folder: string
  readonly sample: SampleStore
  /** What pages said on their consoles, and dialogs; a test that leaves any fails. */
  readonly problems: string[]
  /** Another page, which may not write. */
  newPage(): Promise<Page>
  /** Goes to an address and waits until everything is shown. */
  open(made: Page, url: string): Promise<void>
  expectVerdict(text: string): Promise<void>
}

/** Tests of the page; skipped where no Chromium is installed. */
export function describeInChromium(name: string, tests: (its: InChromium) => void): void {
  describe.skipIf(executablePath === undefined)(
    `${name}${executablePath ? '' : ' (skipped: no Chromium is installed)'}`,
    () => {
      let browser: Browser
      let dashboard: DashboardServer
      const its = {
        problems: [] as string[],
        folder: mkdtempSync(join(tmpdir(), 'tune-browser-')),
        async newPage() {
          const made = await browser.newPage({
            viewport: { width: 1280, height: 1000 },
            acceptDownloads: true,
          })
          made.on(
            'console',
            (message) =>
              ['error', 'warning'].includes(message.type()) && its.problems.push(message.text()),
          )
          made.on('pageerror', (error) => its.problems.push(error.message))
          made.on('dialog', (dialog) => {
            its.problems.push(`dialog: ${dialog.message()}`)
            void dialog.dismiss()
          })
          return made
        },
        async open(made: Page, url: string) {
          await made.goto(url)
          await made.waitForSelector('html[data-ready=true]', { state: 'attached' })
        },
        expectVerdict: (text: string) =>
          its.page.locator('#verdict', { hasText: text }).waitFor({ timeout: 60_000 }),
      } as { -readonly [K in keyof InChromium]: InChromium[K] }

      beforeAll(async () => {
        browser = await chromium.launch({ executablePath, args })
        its.sample = await sampleStore()
        dashboard = await createDashboard(await openReader(its.sample.path), hostContext, {
          edits: { path: its.sample.path, token },
        })
        await dashboard.server.listen({ host: '127.0.0.1', port: 0 })
        its.base = `http://127.0.0.1:${(dashboard.server.server.address() as AddressInfo).port}/`
      })
      afterAll(async () => {
        await browser?.close()
        await dashboard?.close()
        await its.sample?.dispose()
        rmSync(its.folder, { recursive: true, force: true })
      })
      beforeEach(async () => {
        its.problems.length = 0
        its.page = await its.newPage()
        await its.open(its.page, `${its.base}#token=${token}`)
      })
      afterEach(async () => {
        expect(
          await its.page.evaluate(() => 'attacked' in globalThis),
          'a text of a trial was run as a script',
        ).toBe(false)
        await its.page.close()
        expect(its.problems).toEqual([])
      })
      tests(its)
    },
  )
}
