export const firstOffer = {
  name: 'Hotel Miramar, Malaga: double room with sea view, 3 nights',
  source: 'hotelbeds',
  details: {
    hotel: {
      code: 1073,
      name: 'Hotel Miramar',
      category: '5EST',
      latitude: '36.719130',
      longitude: '-4.408780',
    },
    check_in: '2027-04-12',
    check_out: '2027-04-15',
    room: { code: 'DBT.SU', name: 'Double or twin, sea view', board: 'BB', adults: 2, children: 0 },
    price: { net: 612.4, currency: 'EUR', taxes_included: true },
    rate_key: '20270412|20270415|W|1|1073|DBT.SU|CG-TODOS|BB||1~2~0||N@06',
    cancellation: [{ amount: '204.13', from: '2027-04-09T23:59:00+02:00' }],
  },
};
