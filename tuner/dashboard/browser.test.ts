/** The page in a real browser. */
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Browser, chromium, type Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { sloName } from '../../profiler/slo.ts'
import type { Slo } from '../../profiler/types.ts'
import { money, significant, times } from '../../reports/format.ts'
import type { Candidate } from '../../reports/recommendation/types.ts'
import { atCapacityValue, capacityText } from '../../reports/recommendation/words.ts'
import { recommendationDocument } from '../../reports/report/recommendation-json.ts'
import { openReader } from '../../trials/store/index.ts'
import { createDashboard, type DashboardServer } from './dashboard-server.ts'
import { around, late, type SampleStore, sampleStore } from './samples.contract.ts'

const executablePath = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find((path) => existsSync(path))

const args = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
]

describe.skipIf(executablePath === undefined)(
  `the dashboard in Chromium${executablePath ? '' : ' (skipped: no Chromium is installed)'}`,
  () => {
    let browser: Browser
    let sample: SampleStore
    let dashboard: DashboardServer
    let page: Page
    let base: string
    const problems: string[] = []
    const folder = mkdtempSync(join(tmpdir(), 'tune-browser-'))

    beforeAll(async () => {
      browser = await chromium.launch({ executablePath, args })
      sample = await sampleStore()
      dashboard = await createDashboard(await openReader(sample.path), around)
      await dashboard.server.listen({ host: '127.0.0.1', port: 0 })
      base = `http://127.0.0.1:${(dashboard.server.server.address() as AddressInfo).port}/`
    })
    afterAll(async () => {
      await browser?.close()
      await dashboard?.close()
      await sample?.dispose()
      rmSync(folder, { recursive: true, force: true })
    })
    beforeEach(async () => {
      problems.length = 0
      page = await newPage()
      await open(page, base)
    })
    afterEach(async () => {
      expect(await page.evaluate(() => 'attacked' in globalThis), 'a text of a trial was run as a script').toBe(false)
      await page.close()
      expect(problems).toEqual([])
    })

    async function newPage(): Promise<Page> {
      const made = await browser.newPage({ viewport: { width: 1280, height: 1000 }, acceptDownloads: true })
      made.on('console', (message) => ['error', 'warning'].includes(message.type()) && problems.push(message.text()))
      made.on('pageerror', (error) => problems.push(error.message))
      made.on('dialog', (dialog) => {
        problems.push(`dialog: ${dialog.message()}`)
        void dialog.dismiss()
      })
      return made
    }
    async function open(made: Page, url: string): Promise<void> {
      await made.goto(url)
      await made.waitForSelector('html[data-ready=true]', { state: 'attached' })
    }
    const verdict = () => page.locator('#verdict')
    const slider = () => page.getByRole('slider')
    const expectVerdict = (text: string) => page.locator('#verdict', { hasText: text }).waitFor({ timeout: 60_000 })

    test('shows the verdict, where the figures come from, and hostile names as plain text', async () => {
      await expectVerdict('1 core, 1/4 L4 (6 GiB), batch 32')
      expect(await page.locator('.facts .badge').textContent()).toContain('emulated')
      expect(await page.locator('section.verdict').textContent()).toContain('seed 7')
      expect(await page.title()).toContain('<img src=x')
      expect(await page.locator('img').count()).toBe(0)
      expect(await page.locator('#trials').textContent()).toContain('<script>window.attacked=1</script>')
    })

    test('every figure on the page is that of the JSON document', async () => {
      const href = await page.getByRole('link', { name: /JSON/ }).getAttribute('href')
      const r = recommendationDocument.parse(await (await page.request.get(new URL(href!, base).href)).json())
      const best = r.best as unknown as Candidate
      const slo = r.slo as Slo
      const verdict = page.locator('section.verdict')
      const names = await verdict.locator('.tiles dt').allTextContents()
      const values = await verdict.locator('.tiles dd').allTextContents()
      const shown = {
        sentence: await verdict.locator('#verdict').textContent(),
        conclusion: await verdict.getAttribute('data-conclusion'),
        tiles: Object.fromEntries(names.map((name, n) => [name, values[n]])),
        caveats: await verdict.locator('.caveats li').allTextContents(),
        rivals: await verdict.locator('.rivals li').allTextContents(),
      }
      expect(await verdict.locator('.three > div').count()).toBe(3)
      expect(await verdict.locator('.caveats').isVisible(), 'notes are one click away').toBe(false)
      await verdict.locator('summary').first().click()
      expect(await verdict.locator('.caveats').isVisible()).toBe(true)
      expect(await verdict.locator('.three').textContent()).toContain(times(r.gainOverDefault!))
      expect(shown.sentence).toBe(r.verdict)
      expect(shown.conclusion).toBe(r.conclusion)
      expect(shown.tiles.status).toContain(best.status)
      expect(shown.tiles['capacity of one replica']).toContain(capacityText(best))
      expect(shown.tiles[`${sloName(slo)} there`]).toContain(atCapacityValue(slo, best))
      expect(shown.tiles['one replica']).toContain(money(best.pricePerHour))
      expect(shown.tiles['against the default']).toContain(times(r.gainOverDefault!))
      expect(shown.tiles['what limits it']).toContain(r.binding.evidence)
      expect(shown.caveats).toEqual([...r.caveats, r.confidence.statement])
      const others = r.alternatives as unknown as (Candidate & { whyNot: string })[]
      for (const [i, text] of shown.rivals.entries())
        for (const part of [others[i]!.label, others[i]!.status, capacityText(others[i]!), others[i]!.whyNot]) expect(text).toContain(part)
      const drawn = await page.locator('#trials tbody tr:not(.spacer)').all()
      const rows = await Promise.all(drawn.map((row) => row.locator('td').allTextContents()))
      for (const c of [best, ...others]) {
        const row = rows.find((cells) => cells[1] === String(c.trial))!
        expect(row[3]).toContain(c.status)
        expect(row[4]).toBe(c.capacityRps > 0 ? significant(c.capacityRps) : '')
      }
    })

    test('dragging the SLO line re-ranks at once, and back again', async () => {
      await expectVerdict('batch 32')
      const label = page.locator('.slo-label')
      await label.scrollIntoViewIfNeeded()
      const box = (await label.boundingBox())!
      const [x, y] = [box.x + box.width / 2, box.y + box.height / 2]
      await page.mouse.move(x, y)
      await page.mouse.down()
      for (let step = 1; step <= 30; step++) {
        await page.mouse.move(x - step * 12, y)
        if (Number(await slider().getAttribute('aria-valuenow')) < 16) break
      }
      await expectVerdict('2 cores, 1/4 T4 (4 GiB), batch 8')
      await page.mouse.up()
      expect(Number(await page.locator('#slo-limit').inputValue())).toBeLessThan(18)
      expect(await page.locator('section.verdict').textContent()).toContain('no new trials')
      await page.getByRole('button', { name: 'As measured' }).click()
      await expectVerdict('batch 32')
      expect(await slider().getAttribute('aria-valuenow')).toBe('50')
    })

    test('the SLO can be moved by keyboard and by number, prices and demand by number', async () => {
      await slider().focus()
      await page.keyboard.press('ArrowLeft')
      await page.locator('[role=slider][aria-valuenow="49"]').waitFor({ state: 'attached' })
      await page.locator('#slo-limit').fill('15')
      await expectVerdict('batch 8')
      await page.locator('#slo-limit').fill('50')
      await expectVerdict('batch 32')
      await page.getByText('Prices', { exact: true }).click()
      await page.locator('#price-L4').fill('40')
      await expectVerdict('T4')
      await page.getByRole('button', { name: 'As measured' }).click()
      await page.locator('#demand').fill('2000')
      await expectVerdict('replicas for 2,000 req/s')
      expect(await page.locator('#capacity').textContent()).toMatch(/5 replicas of .* carry 2,000 req\/s/)
    })

    test('money against capacity is told by GPU, with the default and what was gained, and per hour too', async () => {
      const chart = page.locator('#decide figure')
      const words = await chart.getAttribute('aria-label')
      expect(words).toMatch(/Recommended: 1 core, 1\/4 L4 .*per million requests.*Default: /)
      await page.getByRole('radio', { name: 'per hour, one replica' }).check()
      expect(await chart.getAttribute('aria-label')).toContain('per hour, one replica')
      await page.locator('#demand').fill('2000')
      await expectVerdict('replicas for 2,000 req/s')
      expect(await page.getByRole('radio', { name: 'per hour, all replicas' }).isChecked()).toBe(true)
      expect(await chart.getAttribute('aria-label')).toContain('per hour, all replicas')
    })

    test('a click on a point of the Pareto chart opens its trial', async () => {
      const canvas = page.locator('#pareto canvas').first()
      await canvas.scrollIntoViewIfNeeded()
      const box = (await canvas.boundingBox())!
      const x = (await page.locator('.slo-handle').boundingBox())!.x
      // The recommended point stands on the SLO line, somewhere between the top of the plot and its bottom.
      for (let y = box.y + 66; y < box.y + box.height - 50; y += 4) {
        await page.mouse.click(x, y)
        if (await page.locator('dialog[open]').isVisible()) break
      }
      const title = await page.locator('#trial-title').textContent()
      expect(title).toMatch(/^Trial \d: /)
      expect(await page.locator('dialog[open]').textContent()).toContain('Load')
      await page.keyboard.press('Escape')
      await page.locator('dialog[open]').waitFor({ state: 'detached' })
    })

    test('the table sorts, filters, and opens trials and their logs, all by keyboard', async () => {
      const first = () => page.locator('#trials tbody tr:not(.spacer)').first().textContent()
      await page.getByRole('button', { name: /^capacity/ }).focus()
      await page.keyboard.press('Enter')
      expect(await page.locator('#trials th[aria-sort=ascending]').textContent()).toContain('capacity')
      const least = await first()
      await page.keyboard.press('Enter')
      expect(await page.locator('#trials th[aria-sort=descending]').textContent()).toContain('capacity')
      expect(await first()).not.toBe(least)
      await page.getByLabel('Filter the trials').fill('l4 batch 32')
      expect(await page.locator('#trials .count').textContent()).toBe('2 of 7')
      await page.getByRole('button', { name: 'Open trial 4' }).focus()
      await page.keyboard.press('Enter')
      await page.getByText('Log of the predictor').click()
      await page.locator('dialog .log', { hasText: 'ready' }).waitFor()
      expect(await page.locator('dialog .log').textContent()).toContain('<img src=x')
      await page.getByRole('button', { name: 'Close' }).click()
      await page.getByLabel('Filter the trials').fill('')
      await page.getByLabel('Which trials').selectOption('infeasible')
      expect(await page.locator('#trials .count').textContent()).toBe('2 of 7')
    })

    test('tells what matters, with intervals, from a worker', async () => {
      await page.locator('#matters .effects figure').first().waitFor({ timeout: 60_000 })
      expect(await page.locator('[aria-label^="Importance: "]').getAttribute('aria-label')).toMatch(/gpu \d+(\.\d+)? %, .* to /)
      expect(await page.locator('[aria-label*="interval foretold"]').getAttribute('aria-label')).toMatch(/^\d of 1 /)
    })

    test('compares two experiments', async () => {
      await page.locator('#compare-with').selectOption('older-0001')
      await page.getByText('Measured in both: 7 configurations').waitFor()
      expect(await page.locator('#compare').textContent()).toContain('overlap: no certain difference')
    })

    test('exports under the question that is asked: CSV, JSON, SVG, spec, and a page that works without a server', async () => {
      await page.locator('#slo-limit').fill('15')
      await expectVerdict('batch 8')
      const saved = async (click: () => Promise<void>) => {
        const [download] = await Promise.all([page.waitForEvent('download'), click()])
        const path = join(folder, download.suggestedFilename())
        await download.saveAs(path)
        return { path, text: readFileSync(path, 'utf8') }
      }
      const json = await saved(() => page.getByRole('link', { name: /JSON/ }).click())
      expect(JSON.parse(json.text)).toMatchObject({ best: { trial: 2 }, slo: { limitMs: 15 } })
      expect((await saved(() => page.getByRole('button', { name: /CSV/ }).click())).text.split('\r\n')).toHaveLength(9)
      const svg = await saved(() => page.getByRole('button', { name: 'Save pareto as SVG' }).click())
      expect(svg.text).toMatch(/^<svg .*Pareto front/s)
      await page.getByLabel('Target of the deployment spec').selectOption('kubernetes')
      await page.locator('#spec', { hasText: 'kind: Deployment' }).waitFor()
      expect(await page.locator('#spec').textContent()).toContain('trial 2')

      const copy = await saved(() => page.getByRole('link', { name: /self-contained/ }).click())
      const offline = await newPage()
      const asked: string[] = []
      offline.on(
        'request',
        (request) => !request.url().startsWith('file:') && !request.url().startsWith('data:') && asked.push(request.url()),
      )
      await offline.goto(`file://${copy.path}`)
      await offline.locator('#verdict', { hasText: 'batch 32' }).waitFor()
      // Under 15 ms too few configurations serve to tell what matters: asked before.
      await offline.locator('#matters .effects figure').first().waitFor({ timeout: 60_000 })
      await offline.locator('#slo-limit').fill('15')
      await offline.locator('#verdict', { hasText: 'batch 8' }).waitFor()
      expect(asked).toEqual([])
      await offline.close()
    })

    test.each([1440, 820, 390])('fits a screen of %d px, with a way to every section and the SLO in sight', async (width) => {
      await page.setViewportSize({ width, height: 844 })
      // Charts are drawn anew a moment after the page became narrower.
      await expect.poll(() => page.evaluate('document.documentElement.scrollWidth'), { timeout: 30_000 }).toBeLessThanOrEqual(width)
      expect(await page.locator('.top nav a').first().isVisible()).toBe(true)
      await page.locator('#pareto .chart').scrollIntoViewIfNeeded()
      for (const limit of ['50', '85', '9']) {
        await page.locator('#slo-limit').fill(limit)
        await page.locator('.slo-label', { hasText: `${limit} ms` }).waitFor()
        const { x, width: long } = (await page.locator('.slo-label').boundingBox())!
        expect(x, limit).toBeGreaterThanOrEqual(0)
        expect(x + long, limit).toBeLessThanOrEqual(width)
      }
    })

    test('is readable in the dark', async () => {
      const ground = () => page.evaluate('getComputedStyle(document.body).backgroundColor')
      const light = await ground()
      await page.getByRole('button', { name: 'Dark or light' }).click()
      expect(await ground()).not.toBe(light)
    })

    test('prints as one report: charts that were never scrolled to, every trial, what is one click away, and nothing to press', async () => {
      await page.evaluate("dispatchEvent(new Event('beforeprint'))")
      await page.emulateMedia({ media: 'print', colorScheme: 'dark' })
      expect(await page.evaluate('getComputedStyle(document.body).color')).toBe('rgb(0, 0, 0)')
      const figures =
        (await page.evaluate(`[...document.querySelectorAll('main figure.chart')].filter((f) => f.checkVisibility()).map((f) => {
        const canvas = f.querySelector('.paper canvas')
        const pixels = canvas ? canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data : []
        return { name: f.getAttribute('aria-label'), drawn: pixels.some((v) => v > 0), width: canvas?.getBoundingClientRect().right }
      })`)) as { name: string; drawn: boolean; width: number }[]
      expect(figures.length).toBeGreaterThanOrEqual(9)
      expect(figures.filter((f) => !f.drawn || f.width > 1280)).toEqual([])
      expect(await page.locator('#trials tbody tr:not(.spacer)').count()).toBe(7)
      expect(await page.locator('.caveats').isVisible()).toBe(true)
      expect(await page.locator('.paper-only').textContent()).toContain('bert-7f3a')
      for (const gone of ['.whatif', '.top nav', '#compare', '#reset', '.save', 'select'])
        expect(await page.locator(gone).first().isVisible(), gone).toBe(false)
      await page.evaluate("dispatchEvent(new Event('afterprint'))")
      expect(await page.locator('.paper canvas').count()).toBe(0)
      expect(await page.locator('.more[open]').count()).toBe(0)
      const pdf = (await page.pdf({ format: 'A4' })).toString('latin1')
      expect(pdf.match(/\/Type \/Page\n/g)?.length).toBeLessThanOrEqual(8)
    })

    test('the recommended trial opens with its chart filled, at once', async () => {
      await page.locator('#trials tbody tr:not(.spacer) .link').first().click()
      expect(await page.locator('dialog .outcome').textContent()).toContain('Best found')
      const drawn = () =>
        page.evaluate(`(() => {
          const canvas = document.querySelector('dialog .canvas canvas')
          return canvas ? canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.some((v) => v > 0) : false
        })()`)
      await expect.poll(drawn).toBe(true)
      const box = (await page.locator('dialog .canvas').boundingBox())!
      expect(box.y + box.height).toBeLessThan(1000)
    })

    test('every control has a name that can be spoken', async () => {
      const nameless = await page.evaluate(`[...document.querySelectorAll('button, input, select, a[href], [role=slider], figure')]
      .filter((e) => !(e.getAttribute('aria-label') || e.textContent.trim() || e.labels?.length > 0))
      .map((e) => e.outerHTML)`)
      expect(nameless).toEqual([])
    })

    test('a page of another name for this address is refused', async () => {
      const rebound = await chromium.launch({ executablePath, args: [...args, '--host-resolver-rules=MAP evil.example 127.0.0.1'] })
      try {
        const stranger = await rebound.newPage()
        const answer = await stranger.goto(base.replace('127.0.0.1', 'evil.example'))
        expect(answer?.status()).toBe(403)
      } finally {
        await rebound.close()
      }
    })

    test('a trial that finishes in another process appears, and the verdict with it', async () => {
      await expectVerdict('batch 32')
      expect(await page.locator('.state').textContent()).toContain('running, 7 of at most 20')
      await sample.store.append(sample.id, late)
      await expectVerdict('1 core, 1/4 L4 (6 GiB), batch 8')
      expect(await page.locator('#trials .count').textContent()).toBe('8')
      await sample.store.finish(sample.id, 'done', {})
      await page.locator('.state', { hasText: 'done' }).waitFor({ timeout: 60_000 })
      expect(await verdict().textContent()).toContain('batch 8')
    })
  },
)
