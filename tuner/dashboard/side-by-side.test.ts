/** Trials and experiments beside each other, in Chromium. */
import { expect, test } from 'vitest'
import { violationsOf } from '../../reports/axe.contract.ts'
import { complete, measured } from '../../reports/samples.contract.ts'
import { describeInChromium } from './in-chromium.contract.ts'
import { document } from './samples.contract.ts'

describeInChromium('side by side', (its) => {
  test('puts trials side by side: their load curves in one chart, what differs in bold, at an address', async () => {
    const pick = (number: number) => its.page.getByLabel(`Compare trial ${number} with others`)
    expect(await its.page.locator('#compare-trials').isHidden()).toBe(true)
    for (const number of [2, 3, 5]) await pick(number).check()
    const compared = its.page.locator('#compare-trials')
    await compared.getByRole('group', { name: /^Load curves of trial 2: .*; trial 3: / }).waitFor()
    const differs = (text: string) => compared.locator('.differs', { hasText: text }).first()
    await differs('L4').waitFor()
    expect(
      await compared.locator('tr', { hasText: 'gpuMemoryPercent' }).locator('.same').count(),
    ).toBe(4)
    await expect.poll(() => new URL(its.page.url()).searchParams.get('trials')).toBe('2,3,5')
    const other = await its.newPage()
    await its.open(other, its.page.url())
    expect(await other.locator('#compare-trials thead').textContent()).toBe('trial 2trial 3trial 5')
    await other.close()
    await pick(3).uncheck()
    await compared.getByRole('button', { name: 'Clear selection' }).click()
    await expect.poll(() => compared.isHidden()).toBe(true)
  })

  test('compares several experiments in one chart, and takes one out again', async () => {
    const spec = { ...document, name: 'third', space: { ...document.space, batchSize: [1, 8] } }
    await its.sample.store.create({
      id: 'third-0001',
      name: 'third',
      createdAt: '2026-11-18T10:00:00.000Z',
      spec,
      provenance: 'simulated',
      seed: 3,
    })
    await its.sample.store.append(
      'third-0001',
      complete(
        1,
        { cpuCores: 2, gpu: 'T4', gpuMemoryPercent: 25, batchSize: 8 },
        measured(300, 10),
      ),
    )
    await its.sample.store.finish('third-0001', 'done')
    await its.open(its.page, its.page.url())
    for (const id of ['older-0001', 'third-0001'])
      await its.page.locator('#compare-with').selectOption(id)
    const chart = its.page.locator('#compare').getByRole('group', {
      name: /^Cost and capacity of 3 experiments.*third-0001: 2 cores, 1\/4 T4/,
    })
    await chart.waitFor()
    await its.page
      .getByRole('heading', { name: 'this one and third-0001: 1 configuration' })
      .waitFor()
    await expect
      .poll(() => new URL(its.page.url()).searchParams.getAll('compare'))
      .toEqual(['older-0001', 'third-0001'])
    await its.page.getByRole('button', { name: 'Remove older-0001 from the comparison' }).click()
    await its.page
      .locator('#compare thead', { hasText: /bert-7f3athird-0001/ })
      .first()
      .waitFor()
    expect(await its.page.locator('#compare').textContent()).not.toContain('older-0001: ')
    await its.page.getByLabel('Compare trial 2 with others').check()
    expect(await violationsOf(its.page)).toEqual([])
    await its.page.emulateMedia({ colorScheme: 'dark' })
    expect(await violationsOf(its.page), 'in the dark').toEqual([])
  })
})
