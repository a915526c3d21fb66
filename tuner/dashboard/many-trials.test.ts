/**
 * Very many trials in Chromium: the verdict at once, the rest when it is ranked, and sections far
 * from the screen when they come near it.
 */
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { openReader } from '../../trials/store/index.ts'
import { createDashboard } from './dashboard-server.ts'
import { describeInChromium } from './in-chromium.contract.ts'
import { storeManyTrials } from './many-trials.contract.ts'
import { hostContext } from './samples.contract.ts'

/** A machine with much other work takes its time. */
const patiently = { timeout: 60_000 }
const verdict = (page: Page) => page.locator('#verdict').textContent()
/** The configuration of the first row of the table. */
const best = async (page: Page) =>
  (await page.locator('#trials tbody tr:nth-child(2) td:nth-child(4)').textContent()) ?? ''
const rankings = (page: Page) =>
  page.evaluate(() => performance.getEntriesByName('show', 'measure').length)

async function ask(
  page: Page,
  limitMs: number,
): Promise<{ readonly before: string; readonly ranked: () => Promise<void> }> {
  const [before, count] = [(await verdict(page)) ?? '', await rankings(page)]
  await page.locator('#slo-limit').fill(String(limitMs))
  await expect.poll(() => verdict(page), patiently).not.toBe(before)
  return {
    before,
    ranked: () => expect.poll(() => rankings(page), patiently).toBeGreaterThan(count),
  }
}

describeInChromium('very many trials', (its) => {
  test('are asked another question: the contenders tell the verdict, all of them the same, and the table follows when it is looked at', async () => {
    const path = join(its.folder, 'many.db')
    await storeManyTrials(path, 5_400)
    const dashboard = await createDashboard(await openReader(path), hostContext)
    try {
      await dashboard.server.listen({ host: '127.0.0.1', port: 0 })
      const page = await its.newPage()
      await its.open(
        page,
        `http://127.0.0.1:${(dashboard.server.server.address() as AddressInfo).port}/`,
      )
      await page.locator('#trials').scrollIntoViewIfNeeded()
      await expect.poll(() => page.locator('#trials .count').textContent(), patiently).toBe('5,400')
      const first = await best(page)
      expect(await verdict(page)).toContain(first)

      await page.evaluate('scrollTo(0, 0)')
      const tight = await ask(page, 12)
      const quick = await verdict(page)
      await tight.ranked()
      expect(await verdict(page)).toBe(quick)
      expect(quick).not.toContain(first)
      await page.locator('#trials').scrollIntoViewIfNeeded()
      await expect.poll(async () => quick?.includes(await best(page)), patiently).toBe(true)

      await page.evaluate('scrollTo(0, 0)')
      const wide = await ask(page, 400)
      // However slow the machine is: each look at the clock finds it 20 ms on.
      await page.evaluate(
        'globalThis.now = Date.now; globalThis.ahead = 0; Date.now = () => now() + (ahead += 20)',
      )
      await page.evaluate("dispatchEvent(new Event('beforeprint'))")
      expect(await verdict(page)).toContain(await best(page))
      await page.evaluate("dispatchEvent(new Event('afterprint')); Date.now = now")
      // What a chart of the paper draws later is drawn on none, which its page would tell.
      await page.evaluate(
        'new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))',
      )
      expect(await verdict(page)).not.toBe(wide.before)
      await page.close()
    } finally {
      await dashboard.close()
    }
  })
})
