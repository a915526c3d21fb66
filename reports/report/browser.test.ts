/** The report in a real browser. Needs Chromium; skipped where there is none. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { chromium } from 'playwright-core'
import { expect, test } from 'vitest'
import { violationsOf } from '../axe.contract.ts'
import { args, executablePath } from '../chromium.contract.ts'
import { toHtml } from '../document/html.ts'
import { renderSvg } from '../document/svg.ts'
import { recommend } from '../recommendation/recommend.ts'
import { sampleInput, sampleTrials } from '../samples.contract.ts'
import { renderReport } from './report-blocks.ts'

test.skipIf(executablePath === undefined)(
  'names full of markup stay text; nothing runs, nothing is asked for, and a phone can read it',
  async () => {
    const folder = mkdtempSync(join(tmpdir(), 'tune-report-'))
    const browser = await chromium.launch({ executablePath, args })
    try {
      const evil = `</title></style></svg>"'><img src=x onerror=alert(1)><script>alert(2)</script><a href="javascript:alert(3)">x</a>`
      const trials = sampleTrials.map((t) => ({ ...t, why: evil }))
      const label = (c: Readonly<Record<string, number | string>>) => `${evil} ${c.batchSize}`
      const recommendation = recommend({ ...sampleInput, trials, label, notices: [evil] })
      const input = {
        ...sampleInput,
        trials,
        label,
        recommendation,
        name: evil,
        specification: evil,
        environment: [evil],
      }
      const path = join(folder, 'report.html')
      writeFileSync(path, toHtml(evil, await renderReport(input, (option) => renderSvg(option))))

      const page = await browser.newPage({ viewport: { width: 390, height: 800 } })
      const noise: string[] = []
      page.on('console', (message) => noise.push(message.text()))
      page.on('pageerror', (error) => noise.push(error.message))
      page.on('dialog', (dialog) => {
        noise.push(`dialog ${dialog.message()}`)
        void dialog.dismiss()
      })
      page.on('request', (request) => {
        if (!request.url().startsWith('file:') && !request.url().startsWith('data:'))
          noise.push(request.url())
      })
      await page.goto(`file://${path}`)
      expect(noise).toEqual([])
      const seen = await page.evaluate(
        `({ title: document.title, foreign: document.querySelectorAll('script, img, a, iframe').length, charts: document.querySelectorAll('svg').length, width: document.documentElement.scrollWidth, heading: document.querySelector('h1').textContent })`,
      )
      expect(seen).toEqual({
        title: evil,
        foreign: 0,
        charts: 3,
        width: 390,
        heading: `${evil}: how to serve it within p99 <= 50 ms`,
      })
    } finally {
      await browser.close()
      rmSync(folder, { recursive: true, force: true })
    }
  },
)

test.skipIf(executablePath === undefined)(
  'on paper nothing is cut off and nothing stays folded',
  async () => {
    const browser = await chromium.launch({ executablePath, args })
    try {
      const recommendation = recommend(sampleInput)
      const specification = `note: ${'0123456789'.repeat(40)}`
      const input = { ...sampleInput, recommendation, name: 'bert', specification, environment: [] }
      // A4 between the margins, CSS pixels.
      const page = await browser.newPage({ viewport: { width: 703, height: 1000 } })
      await page.emulateMedia({ media: 'print' })
      await page.setContent(
        toHtml('bert', await renderReport(input, (option) => renderSvg(option))),
      )
      const seen = await page.evaluate(`({
      width: document.documentElement.scrollWidth,
      cut: [...document.querySelectorAll('table, pre, figure')].filter((e) => e.scrollWidth > e.clientWidth + 1 || e.parentElement.scrollWidth > e.parentElement.clientWidth + 1).length,
      folded: [...document.querySelectorAll('details > *')].filter((e) => !e.checkVisibility({ contentVisibilityAuto: true })).length,
      inside: document.querySelectorAll('details > *').length,
      alone: [...document.querySelectorAll('h1, h2, h3')].filter((e) => getComputedStyle(e).breakAfter !== 'avoid').length,
    })`)
      expect(seen).toEqual({ width: 703, cut: 0, folded: 0, inside: expect.any(Number), alone: 0 })
      expect((seen as { inside: number }).inside).toBeGreaterThan(2)
    } finally {
      await browser.close()
    }
  },
)

test.skipIf(executablePath === undefined).each(['light', 'dark'] as const)(
  'keeps WCAG AA in the %s',
  async (colorScheme) => {
    const browser = await chromium.launch({ executablePath, args })
    try {
      const page = await browser.newPage({ colorScheme })
      const input = {
        ...sampleInput,
        recommendation: recommend(sampleInput),
        name: 'bert',
        specification: 'a: b',
        environment: ['c'],
      }
      await page.setContent(
        toHtml('bert', await renderReport(input, (option) => renderSvg(option))),
      )
      expect(await violationsOf(page)).toEqual([])
    } finally {
      await browser.close()
    }
  },
)

test.skipIf(executablePath === undefined)(
  'on paper no names of a chart cover one another, or the plot',
  async () => {
    const browser = await chromium.launch({ executablePath, args })
    try {
      const label = (c: Readonly<Record<string, number | string>>) =>
        `${c.cpuCores} cores, 1/2 A100-40GB (20 GiB), maxNumSeqs ${c.batchSize}, maxNumBatchedTokens 8192`
      const about = { name: 'bert', specification: 'a: b', environment: [] }
      const input = { ...sampleInput, label, ...about }
      const page = await browser.newPage({ viewport: { width: 703, height: 1000 } })
      await page.emulateMedia({ media: 'print' })
      const blocks = await renderReport({ ...input, recommendation: recommend(input) }, (option) =>
        renderSvg(option),
      )
      await page.setContent(toHtml('bert', blocks))
      const covered = await page.evaluate(`[...document.querySelectorAll('svg')].flatMap((svg) => {
        const names = [...svg.querySelectorAll('text')].filter((e) => !/recommended|baseline|SLO/.test(e.textContent))
        const boxes = names.map((e) => [e.textContent, e.getBoundingClientRect()])
        return boxes.flatMap(([a, p], i) => boxes.slice(i + 1).flatMap(([b, q]) =>
          p.left < q.right && q.left < p.right && p.top < q.bottom - 1 && q.top < p.bottom - 1 ? [[a, b]] : []))
      })`)
      expect(covered).toEqual([])
    } finally {
      await browser.close()
    }
  },
)
