const time = '2027-03-02T16:05:12.000Z';

export const reservationEventExamples = {
  'reservation.confirmed': reservationIn('confirmed', 'confirmed', 'confirmed'),
  'reservation.cancelled': reservationIn('cancelled', 'cancelled', 'cancelled'),
  'reservation.failed': reservationIn('failed', null, 'failed'),
  'reservation.needs_attention': reservationIn('needs_attention', 'pending', 'confirmed'),
};

function reservationIn(status: string, booking: string | null, dining: string): object {
  return {
    name: 'Casa Olivo: table for 4',
    created_at: time,
    updated_at: time,
    status,
    erased_at: undefined,
    booking: { id: 'b3c1b8a4-52f4-4d0e-9a51-0f4f9b3c7d21', status: booking },
    dining: {
      partner: 'dining',
      start_at: '2027-04-12T19:00:00.000Z',
      time_zone: 'Europe/Madrid',
      party_size: 4,
      booking_id: 'CO-51920',
      status: dining,
    },
  };
}
